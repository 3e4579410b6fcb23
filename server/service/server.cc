#include "server/service/server.h"

#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/impl/server_builder_option.h>
#include <grpcpp/impl/server_builder_plugin.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "server/planner/make_plan.h"
#include "server/service/authentication.h"
#include "server/service/connection_limits.h"
#include "server/telemetry/log.h"

namespace batchplan {
namespace {

// Reflection for one server. Linking the library turns it on for all servers of a process; this
// decides per server, whether or not the linker kept the library's initialiser.
class ReflectionOption final : public grpc::ServerBuilderOption {
 public:
  explicit ReflectionOption(bool enabled) : enabled_(enabled) {}

  void UpdateArguments(grpc::ChannelArguments* /*arguments*/) override {}

  void UpdatePlugins(std::vector<std::unique_ptr<grpc::ServerBuilderPlugin>>* plugins) override {
    auto reflection = std::make_unique<grpc::reflection::ProtoServerReflectionPlugin>();
    const std::string name = reflection->name();
    std::erase_if(*plugins, [&name](const auto& plugin) { return plugin->name() == name; });
    if (enabled_) plugins->push_back(std::move(reflection));
  }

 private:
  const bool enabled_;
};

size_t PlanningThreads(const ServerOptions& options) {
  if (options.planning_threads > 0) return static_cast<size_t>(options.planning_threads);
  return std::max(1U, std::thread::hardware_concurrency());
}

PlanBatchConfig ConfigFor(const ServerOptions& options, PlanFunction plan, Metrics* metrics,
                          const Tokens* tokens) {
  return {.plan = std::move(plan),
          .verify_plans = options.verify_plans,
          .max_message_bytes = static_cast<size_t>(options.max_message_bytes),
          .metrics = metrics,
          .tokens = tokens};
}

}  // namespace

absl::StatusOr<std::unique_ptr<Server>> Server::Start(const ServerOptions& options) {
  return Start(options, MakePlan);
}

absl::StatusOr<std::unique_ptr<Server>> Server::Start(const ServerOptions& options,
                                                      PlanFunction plan) {
  absl::Status status = options.Validate();
  if (!status.ok()) return status;
  std::unique_ptr<Tokens> tokens;
  if (!options.auth_tokens.empty()) {
    absl::StatusOr<std::unique_ptr<Tokens>> loaded = Tokens::Load(options.auth_tokens);
    if (!loaded.ok()) return loaded.status();
    tokens = *std::move(loaded);
    if (tokens->IsWorldReadable()) {
      Log(Severity::kWarning, "tokens_world_readable", {{"auth_tokens", options.auth_tokens}});
    }
  }
  std::unique_ptr<Server> server;
  try {
    server.reset(new Server(options, std::move(plan), std::move(tokens)));
  } catch (const std::system_error& error) {
    return absl::ResourceExhaustedError(absl::StrCat("can't start ", PlanningThreads(options),
                                                     " planning threads: ", error.what()));
  }
  status = server->Listen();
  if (!status.ok()) return status;
  return server;
}

Server::Server(const ServerOptions& options, PlanFunction plan, std::unique_ptr<Tokens> tokens)
    : options_(options),
      metrics_(std::string(PlannerVersion()),
               {.max_labels = static_cast<size_t>(options.max_job_labels)}),
      tokens_(std::move(tokens)),
      pool_(PlanningThreads(options), static_cast<size_t>(options.max_queued_plans)),
      service_(ConfigFor(options, std::move(plan), &metrics_, tokens_.get()), &pool_) {}

Server::~Server() { Shutdown(); }

absl::Status Server::Listen() {
  const bool tls = !options_.tls_certificate.empty();
  if (tls) {
    std::lock_guard lock(reload_mutex_);
    if (absl::Status usable = NoteCertificate(); !usable.ok()) return usable;
  }
  if (!options_.metrics_listen.empty()) {
    auto endpoint = HttpEndpoint::Start(options_.metrics_listen, metrics_.registry(),
                                        [this] { return ready_.load(); });
    if (!endpoint.ok()) {
      return absl::FailedPreconditionError(absl::StrCat(
          "--metrics_listen=", options_.metrics_listen, ": ", endpoint.status().message()));
    }
    endpoint_ = *std::move(endpoint);
  }

  static std::once_flag health_enabled;
  std::call_once(health_enabled, [] { grpc::EnableDefaultHealthCheckService(true); });
  grpc::ServerBuilder builder;
  builder.SetOption(std::make_unique<ReflectionOption>(options_.reflection));
  SetConnectionLimits(options_, &builder);
  const std::shared_ptr<grpc::ServerCredentials> credentials = MakeServerCredentials(options_);
  if (tokens_ != nullptr) {
    credentials->SetAuthMetadataProcessor(
        std::make_shared<TokenProcessor>(tokens_.get(), &metrics_));
  }
  builder.AddListeningPort(options_.listen, credentials, &port_);
  builder.RegisterService(&service_);
  grpc_server_ = builder.BuildAndStart();
  if (grpc_server_ == nullptr || port_ == 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("--listen=", options_.listen, ": address already in use or not valid"));
  }
  grpc_server_->GetHealthCheckService()->SetServingStatus(v1::BatchPlanner::service_full_name(),
                                                          true);
  ready_ = true;
  if (tls) {
    reload_ = std::make_unique<Periodic>(options_.tls_reload_interval, [this] { ReloadFiles(); });
  }
  return absl::OkStatus();
}

absl::Status Server::NoteCertificate() {
  const absl::StatusOr<ServerCertificate> found = CheckTlsFiles(options_);
  if (!found.ok()) {
    certificate_error_ = std::string(found.status().message());
    return found.status();
  }
  if (*found != certificate_ || !certificate_error_.empty()) {
    const bool holds = found->not_before <= absl::Now() && absl::Now() < found->not_after;
    Log(holds ? Severity::kInfo : Severity::kError, "tls_files",
        {{"subject", found->subject},
         {"serial", found->serial},
         {"not_before",
          absl::FormatTime(absl::RFC3339_sec, found->not_before, absl::UTCTimeZone())},
         {"not_after", absl::FormatTime(absl::RFC3339_sec, found->not_after, absl::UTCTimeZone())},
         {"error", holds ? "" : "the certificate does not hold now"}});
  }
  certificate_ = *found;
  certificate_error_.clear();
  metrics_.SetCertificateExpiry(found->not_after);
  return absl::OkStatus();
}

void Server::ReloadFiles() {
  std::lock_guard lock(reload_mutex_);
  // What is wrong is said once, not at every interval.
  if (!options_.tls_certificate.empty()) {
    const std::string before = certificate_error_;
    if (absl::Status usable = NoteCertificate(); !usable.ok() && certificate_error_ != before) {
      Log(Severity::kError, "tls_files", {{"error", certificate_error_}});
    }
  }
  if (tokens_ == nullptr) return;
  const absl::StatusOr<bool> changed = tokens_->Reload();
  const std::string error(changed.status().message());
  if (!changed.ok() && error != tokens_error_) {
    Log(Severity::kError, "tokens", {{"error", error}, {"kept", tokens_->table()->size()}});
  } else if (changed.ok() && *changed) {
    Log(Severity::kInfo, "tokens", {{"loaded", tokens_->table()->size()}});
  }
  tokens_error_ = error;
}

void Server::Drain() {
  AnnounceDrain();
  absl::SleepFor(options_.drain_delay);
  Shutdown();
}

void Server::AnnounceDrain() {
  ready_ = false;
  grpc_server_->GetHealthCheckService()->Shutdown();
}

void Server::Shutdown() {
  std::lock_guard lock(shutdown_mutex_);
  ready_ = false;
  // The pool stops last: gRPC waits for the calls that it works on.
  if (grpc_server_ != nullptr) {
    grpc_server_->Shutdown(std::chrono::system_clock::now() +
                           absl::ToChronoMilliseconds(options_.shutdown_grace));
  }
  pool_.Stop();
}

}  // namespace batchplan
