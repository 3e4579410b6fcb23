// batchplan-server: from flags to a server, and from signals to its drain.

#include <pthread.h>
#include <signal.h>

#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "server/flag_set.h"
#include "server/flags.h"
#include "server/planner/make_plan.h"
#include "server/service/freed_memory.h"
#include "server/service/grpc_log.h"
#include "server/service/open_file_limit.h"
#include "server/service/server.h"
#include "server/service/server_options.h"
#include "server/telemetry/log.h"
#include "server/telemetry/log_writer.h"

namespace {

using batchplan::FlagSet;
using batchplan::Log;
using batchplan::Server;
using batchplan::ServerOptions;
using batchplan::Severity;

constexpr int kUsageError = 2;

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

  const uint64_t open_files = batchplan::RaiseOpenFileLimit();
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
       {"version", batchplan::PlannerVersion()},
       {"open_files", open_files}});

  int signal = 0;
  sigwait(&signals, &signal);
  // From here on a signal has its default action again: a second one ends the process at once.
  pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);
  Log(Severity::kInfo, "draining", {{"signal", signal == SIGINT ? "SIGINT" : "SIGTERM"}});
  (*server)->Drain();
  Log(Severity::kInfo, "stopped");
  return EXIT_SUCCESS;
}

// What was logged is still written if there is somebody who reads it.
constexpr absl::Duration kLongestFlush = absl::Seconds(1);

void FlushLogBeforeAbort(int /*signal*/) { batchplan::FlushLog(kLongestFlush); }

int Run(int argc, char** argv) {
  batchplan::Flags flags;
  FlagSet::Outcome outcome = FlagSet::Outcome::kDone;
  if (absl::Status read = batchplan::ReadFlags(argc, argv, &flags, &outcome); !read.ok()) {
    std::cerr << "batchplan-server: " << read.message() << "\nTry 'batchplan-server --help'.\n";
    return kUsageError;
  }
  if (outcome == FlagSet::Outcome::kDone) return EXIT_SUCCESS;
  batchplan::SetLogOptions(flags.log);
  // gRPC and the C++ runtime say why before they abort.
  std::signal(SIGABRT, &FlushLogBeforeAbort);
  batchplan::RouteGrpcLog();
  const int status = Serve(flags.server);
  batchplan::FlushLog(kLongestFlush);
  return status;
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
