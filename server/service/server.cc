#include "server/service/server.h"

#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/impl/server_builder_option.h>
#include <grpcpp/impl/server_builder_plugin.h>

#include <algorithm>
#include <chrono>
#include <mutex>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "server/base/address_space.h"
#include "server/planner/make_plan.h"
#include "server/recent/recent_page.h"
#include "server/service/connections.h"
#include "server/service/freed_memory.h"
#include "server/service/rpc/call_names.h"
#include "server/service/security/authentication.h"
#include "server/telemetry/log.h"

namespace batchplan {
namespace {

// Turns reflection on or off for one server. Linking the library would turn it on for all servers
// of the process, if the linker kept the library's initializer.
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

// How many calls of the store run at once. Redis serves one at a time; the others are on their way.
constexpr size_t kStoreThreads = 8;
// Further threads, for reports.
constexpr size_t kReportThreads = 4;

// The address space of the program, its libraries and all threads but those that plan, with a
// little for planning: it starts with 280 MiB. The second is that of a thread, whose stack is 8
// MiB.
constexpr uint64_t kAddressSpace = uint64_t{400} << 20;
constexpr uint64_t kThreadAddressSpace = uint64_t{9} << 20;

// How much freed memory is returned to the system, and how often the server looks.
constexpr size_t kFreedMemoryToReturn = 64 << 20;
constexpr absl::Duration kReturnInterval = absl::Seconds(2);

// How often the server checks that connections are accepted. If that many checks in a row find
// waiting connections and none accepted, it is not ready. Even a busy machine never needs as long.
constexpr absl::Duration kAcceptInterval = absl::Seconds(1);
constexpr int kLooksUntilNotReady = 5;

// At least two, so that a long plan does not block all others.
constexpr size_t kLeastPlanningThreads = 2;

// During shutdown: how often the server looks for connections to end, and how long stopped calls,
// and then gRPC, have to send their last answers.
constexpr absl::Duration kLook = absl::Milliseconds(20);
constexpr absl::Duration kLastWords = absl::Seconds(1);

size_t PlanningThreads(const ServerOptions& options) {
  const size_t threads = options.planning_threads > 0
                             ? static_cast<size_t>(options.planning_threads)
                             : std::thread::hardware_concurrency();
  return std::max(kLeastPlanningThreads, threads);
}

PlanningPoolOptions PoolOptions(const ServerOptions& options) {
  PlanningPoolOptions pool;
  pool.threads = PlanningThreads(options);
  pool.max_queued_plans = static_cast<size_t>(options.max_queued_plans);
  pool.max_queued_sequences = static_cast<uint64_t>(options.max_queued_sequences);
  return pool;
}

CallEnvironment EnvironmentFor(const ServerOptions& options, PlanningPool* pool,
                               StoreThreads* store_threads, StoreThreads* report_threads,
                               ByteBudget* waiting_bytes, UnsentAnswers* unsent, Metrics* metrics,
                               CallsInFlight* calls, const Tokens* tokens) {
  return {.pool = pool,
          .store_threads = store_threads,
          .report_threads = report_threads,
          .waiting_bytes = waiting_bytes,
          .unsent = unsent,
          .metrics = metrics,
          .calls = calls,
          .tokens = tokens,
          .limits = {.max_sequences = static_cast<uint64_t>(options.max_sequences)}};
}

TlsFiles TlsFilesOf(const ServerOptions& options) {
  return {.certificate = options.tls_certificate,
          .key = options.tls_key,
          .client_ca = options.tls_client_ca,
          .reload_interval = options.tls_reload_interval};
}

PlanBatchConfig ConfigFor(const ServerOptions& options, PlanFunction plan, PlanCache* cache,
                          PlanningLimit* limit, const PlanObservers& observers) {
  return {.plan = std::move(plan),
          .verify_plans = options.verify_plans,
          .max_message_bytes = static_cast<size_t>(options.max_message_bytes),
          .observers = observers,
          .cache = cache->enabled() ? cache : nullptr,
          .limit = limit};
}

// Null if there is no endpoint to show them, or none are kept.
std::unique_ptr<RecentPlans> MakeRecentPlans(const ServerOptions& options) {
  if (options.recent_plans == 0 || options.metrics_listen.empty()) return nullptr;
  return std::make_unique<RecentPlans>(
      RecentPlansOptions{.plans_a_job = static_cast<size_t>(options.recent_plans)});
}

HttpContent ContentOf(const Metrics& metrics, std::function<bool()> ready,
                      const RecentPlans* recent) {
  HttpContent content = {.metrics = metrics.collectable(), .ready = std::move(ready)};
  if (recent != nullptr) {
    content.pages.push_back({.path = "/plans",
                             .parameter = "job_id",
                             .render = [recent](const std::optional<std::string>& job_id) {
                               return FormatRecentPage(*recent, job_id, absl::Now());
                             }});
  }
  return content;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Server>> Server::Start(const ServerOptions& options) {
  return Start(options, MakePlan);
}

absl::StatusOr<std::unique_ptr<Server>> Server::Start(const ServerOptions& options,
                                                      PlanFunction plan) {
  absl::Status status = options.Validate();
  if (!status.ok()) return status;
  status = CheckAddressSpace("the server",
                             kAddressSpace + PlanningThreads(options) * kThreadAddressSpace);
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
    absl::StatusOr<Stores> stores = OpenStores(options);
    if (!stores.ok()) return stores.status();
    server.reset(new Server(options, std::move(plan), std::move(tokens), *std::move(stores)));
    status = server->Listen();
  } catch (const std::system_error& error) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "can't start ", PlanningThreads(options), " planning threads, ",
        kStoreThreads + kReportThreads, " for the store and those beside them: ", error.what()));
  }
  if (!status.ok()) return status;
  return server;
}

Server::Server(const ServerOptions& options, PlanFunction plan, std::unique_ptr<Tokens> tokens,
               Stores stores)
    : options_(options),
      metrics_(std::string(PlannerVersion()),
               {.max_labels = static_cast<size_t>(options.max_job_labels)}),
      tokens_(std::move(tokens)),
      recent_(MakeRecentPlans(options)),
      cache_(static_cast<size_t>(options.plan_cache_bytes), &metrics_),
      stores_(Measured(std::move(stores), &metrics_)),
      fits_(stores_.fits.get()),
      pool_(PoolOptions(options), &metrics_),
      store_threads_(kStoreThreads, static_cast<size_t>(options.max_waiting_joins)),
      report_threads_(kReportThreads, static_cast<size_t>(options.max_waiting_joins)),
      waiting_bytes_("max_waiting_bytes", static_cast<uint64_t>(options.max_waiting_bytes)),
      unsent_({.max_bytes = static_cast<uint64_t>(options.max_unsent_bytes)}, &metrics_),
      planning_limit_(options.max_planning_seconds),
      config_(ConfigFor(options, std::move(plan), &cache_, &planning_limit_,
                        {.metrics = &metrics_, .recent = recent_.get()})),
      collective_({.replica = NewRequestId(),
                   .max_waiting_joins = static_cast<size_t>(options.max_waiting_joins),
                   .max_sequences = static_cast<uint64_t>(options.max_sequences),
                   .longest_wait = options.step_time_to_live,
                   .step_retention = options.step_retention},
                  {.steps = stores_.steps.get(), .memory = stores_.memory}, &fits_, &store_threads_,
                  &pool_, config_),
      service_(EnvironmentFor(options, &pool_, &store_threads_, &report_threads_, &waiting_bytes_,
                              &unsent_, &metrics_, &calls_, tokens_.get()),
               config_, &collective_, &fits_) {}

Server::~Server() { Shutdown(); }

absl::Status Server::Listen() {
  const bool tls = !options_.tls_certificate.empty();
  if (tls) {
    MutexLock lock(reload_mutex_);
    if (absl::Status usable = NoteCertificate(); !usable.ok()) return usable;
  }
  if (!options_.metrics_listen.empty()) {
    auto endpoint = HttpEndpoint::Start(
        options_.metrics_listen,
        ContentOf(
            metrics_, [this] { return started_ && accepting_; }, recent_.get()));
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
  const std::shared_ptr<grpc::ServerCredentials> credentials =
      MakeServerCredentials(TlsFilesOf(options_));
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
  started_ = true;
  accept_watch_ = std::make_unique<AcceptWatch>(OpenConnections(options_.listen, port_));
  watch_accepting_ = std::make_unique<Periodic>(kAcceptInterval, [this] { WatchAccepting(); });
  return_memory_ = std::make_unique<Periodic>(kReturnInterval, [this] { ReturnMemory(); });
  if (tls) {
    reload_ = std::make_unique<Periodic>(options_.tls_reload_interval, [this] { ReloadFiles(); });
  }
  return absl::OkStatus();
}

void Server::OnDeaf(std::function<void()> deaf) {
  MutexLock lock(deaf_mutex_);
  on_deaf_ = std::move(deaf);
  if (deaf_ && on_deaf_) on_deaf_();
}

void Server::WatchAccepting() {
  const int looks = accept_watch_->Look();
  const bool accepting = looks < kLooksUntilNotReady;
  if (accepting_.exchange(accepting) != accepting) {
    metrics_.SetAccepting(accepting);
    // Has no effect after AnnounceDrain.
    grpc_server_->GetHealthCheckService()->SetServingStatus(accepting);
    Log(accepting ? Severity::kInfo : Severity::kError, accepting ? "accepting" : "not_accepting",
        {{"listen", options_.listen}, {"port", port_}});
  }
  if (!started_ || options_.accept_patience == absl::ZeroDuration() ||
      looks * kAcceptInterval < options_.accept_patience) {
    return;
  }
  MutexLock lock(deaf_mutex_);
  if (std::exchange(deaf_, true)) return;
  Log(Severity::kError, "deaf",
      {{"seconds", absl::ToDoubleSeconds(options_.accept_patience)},
       {"error", "connections wait and none was taken; the server has to be started anew"}});
  if (on_deaf_) on_deaf_();
}

void Server::ReturnMemory() {
  if (!pool_.idle()) return;
  const size_t freed = FreedMemory();
  returned_memory_ = std::min(returned_memory_, freed);
  if (freed - returned_memory_ < kFreedMemoryToReturn) return;
  ReturnFreedMemory();
  returned_memory_ = FreedMemory();
}

absl::Status Server::NoteCertificate() {
  const absl::StatusOr<ServerCertificate> found = CheckTlsFiles(TlsFilesOf(options_));
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
  MutexLock lock(reload_mutex_);
  // A problem is logged once, not at every interval.
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
  started_ = false;
  grpc_server_->GetHealthCheckService()->Shutdown();
}

void Server::EndCallsAndConnections() {
  using std::chrono::steady_clock;
  const OpenConnections connections(options_.listen, port_);
  connections.StopListening();
  auto deadline = steady_clock::now() + absl::ToChronoNanoseconds(options_.shutdown_grace);
  bool cut_short = false;
  do {
    // Repeated, since a connection ends with its last call, and a new one may have been accepted
    // meanwhile.
    connections.EndAllBut(calls_.Peers());
    if (!cut_short && steady_clock::now() >= deadline) {
      calls_.CutShort();
      cut_short = true;
      deadline = steady_clock::now() + absl::ToChronoNanoseconds(kLastWords);
    }
  } while (!calls_.WaitUntilNone(
               std::min(deadline, steady_clock::now() + absl::ToChronoNanoseconds(kLook))) &&
           !(cut_short && steady_clock::now() >= deadline));
  connections.EndAllBut({});
}

void Server::Shutdown() {
  MutexLock lock(shutdown_mutex_);
  if (shut_down_) return;
  shut_down_ = true;
  started_ = false;
  // These two hold the listeners open.
  watch_accepting_ = nullptr;
  accept_watch_ = nullptr;
  // From here on the server answers new calls itself; gRPC's own shutdown would answer CANCELLED.
  calls_.Close();
  // Before the listeners close, so that waiting workers have time to meet elsewhere.
  collective_.Shutdown();
  // The threads stop last, since gRPC waits for the calls that they work on.
  if (grpc_server_ != nullptr) {
    EndCallsAndConnections();
    grpc_server_->Shutdown(std::chrono::system_clock::now() +
                           absl::ToChronoMilliseconds(kLastWords));
  }
  pool_.Stop();
  store_threads_.Stop();
  report_threads_.Stop();
}

}  // namespace batchplan
