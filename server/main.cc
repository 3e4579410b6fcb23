// batchplan-server: flags to options, and signals to the drain.

#include <pthread.h>
#include <signal.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "server/planner/make_plan.h"
#include "server/service/freed_memory.h"
#include "server/service/server.h"
#include "server/service/server_options.h"
#include "server/telemetry/log.h"

namespace {

using batchplan::Log;
using batchplan::Server;
using batchplan::ServerOptions;
using batchplan::Severity;

constexpr int kUsageError = 2;

constexpr const char* kDescription =
    "Plans batches for LLM training: sequence lengths in, an executable plan out, over gRPC\n"
    "(batchplan.v1.BatchPlanner, with grpc.health.v1 and reflection).\n"
    "\n"
    "  batchplan-server\n"
    "      serves on 127.0.0.1:50051, metrics on http://127.0.0.1:9464/metrics\n"
    "  batchplan-server --listen=0.0.0.0:50051 --planning_threads=8\n"
    "      serves other machines; plain text, so on a trusted network or behind a proxy only\n";

constexpr const char* kFooter =
    "\nSIGTERM or SIGINT drains: health checks turn NOT_SERVING, calls are still taken for\n"
    "--drain_delay seconds, then those in flight get --shutdown_grace seconds to end. A second\n"
    "signal ends the process at once.\n"
    "Exit status: 0 after a drain, 1 if the server can't start, 2 for a usage error.\n";

void AddFlags(ServerOptions& options, double& drain_delay, double& shutdown_grace, CLI::App& app) {
  app.add_option("--listen", options.listen, "Serve gRPC here; port 0 takes a free one")
      ->type_name("HOST:PORT")
      ->capture_default_str();
  app.add_option("--metrics_listen", options.metrics_listen,
                 "Serve Prometheus metrics here, at /metrics; \"off\": nowhere")
      ->type_name("HOST:PORT")
      ->capture_default_str();
  app.add_option("--max_message_bytes", options.max_message_bytes,
                 "Largest request and largest response; give clients the same limit")
      ->type_name("BYTES")
      ->capture_default_str();
  app.add_option("--max_sequences", options.max_sequences, "Most sequences of one request")
      ->type_name("N")
      ->capture_default_str();
  app.add_option("--planning_threads", options.planning_threads,
                 "Plans made at the same time; 0: one a processor")
      ->type_name("N")
      ->capture_default_str();
  app.add_option("--max_queued_plans", options.max_queued_plans,
                 "Requests that may wait for a planning thread; more are refused with "
                 "RESOURCE_EXHAUSTED")
      ->type_name("N")
      ->capture_default_str();
  app.add_option(
         "--max_queued_sequences", options.max_queued_sequences,
         "Sequences of all requests that wait or are planned; what is beyond is refused with "
         "RESOURCE_EXHAUSTED, calls of the job that holds most first")
      ->type_name("N")
      ->capture_default_str();
  app.add_option("--plan_cache_bytes", options.plan_cache_bytes,
                 "Memory for plans, to answer the same request again with; 0: none")
      ->type_name("BYTES")
      ->capture_default_str();
  app.add_flag("--reflection,!--noreflection", options.reflection,
               "Serve reflection, for grpcurl and the like (default: true)");
  app.add_flag("--verify_plans,!--noverify_plans", options.verify_plans,
               "Prove every plan's promises before it is sent (default: false)");
  app.add_option("--drain_delay", drain_delay,
                 "Seconds between turning NOT_SERVING and closing the listeners")
      ->type_name("SECONDS")
      ->capture_default_str();
  app.add_option("--shutdown_grace", shutdown_grace,
                 "Seconds that calls in flight get once the listeners are closed")
      ->type_name("SECONDS")
      ->capture_default_str();
}

// The host that `address` names, with the port that was bound.
std::string WithPort(const std::string& address, int port) {
  if (address.starts_with("unix:")) return address;
  return absl::StrCat(address.substr(0, address.rfind(':')), ":", port);
}

int Serve(const ServerOptions& options) {
  // Blocked before the first thread starts, so that all threads inherit it and sigwait is the one
  // place where these signals arrive.
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);

  absl::StatusOr<std::unique_ptr<Server>> server = Server::Start(options);
  if (!server.ok()) {
    std::cerr << "batchplan-server: " << server.status().message() << "\n";
    return absl::IsInvalidArgument(server.status()) ? kUsageError : EXIT_FAILURE;
  }
  const std::string metrics = options.metrics_listen.empty()
                                  ? "off"
                                  : WithPort(options.metrics_listen, (*server)->metrics_port());
  Log(Severity::kInfo, "listening",
      {{"grpc", WithPort(options.listen, (*server)->port())},
       {"metrics", metrics},
       {"version", batchplan::PlannerVersion()}});

  int signal = 0;
  sigwait(&signals, &signal);
  // From here on a signal has its default action again: a second one ends the process at once.
  pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);
  Log(Severity::kInfo, "draining", {{"signal", signal == SIGINT ? "SIGINT" : "SIGTERM"}});
  (*server)->Drain();
  Log(Severity::kInfo, "stopped");
  return EXIT_SUCCESS;
}

// Flags to options, then serves.
int Run(int argc, char** argv) {
  ServerOptions options;
  double drain_delay = absl::ToDoubleSeconds(options.drain_delay);
  double shutdown_grace = absl::ToDoubleSeconds(options.shutdown_grace);
  CLI::App app(kDescription, "batchplan-server");
  app.footer(kFooter);
  app.set_version_flag("--version",
                       absl::StrCat("batchplan-server ", std::string(batchplan::PlannerVersion())));
  AddFlags(options, drain_delay, shutdown_grace, app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? EXIT_SUCCESS : kUsageError;
  }
  if (options.metrics_listen == "off") options.metrics_listen.clear();
  options.drain_delay = absl::Seconds(drain_delay);
  options.shutdown_grace = absl::Seconds(shutdown_grace);
  return Serve(options);
}

}  // namespace

int main(int argc, char** argv) {
  batchplan::KeepFreedMemory();
  try {
    return Run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "batchplan-server: %s\n", error.what());
    return EXIT_FAILURE;
  }
}
