// batchplan-server: starts a server from its flags, and drains it on a signal.

#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <memory>
#include <new>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "server/base/address_space.h"
#include "server/flag_set.h"
#include "server/flags.h"
#include "server/grpc_log.h"
#include "server/planner/make_plan.h"
#include "server/service/freed_memory.h"
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

// Raises the limit of open descriptors as far as the process may, and returns the limit. Each
// connection needs one, and gRPC 1.51 accepts no more connections once it found none.
uint64_t RaiseOpenFileLimit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return 0;
  const rlim_t before = limit.rlim_cur;
  limit.rlim_cur = limit.rlim_max;
  return setrlimit(RLIMIT_NOFILE, &limit) == 0 ? limit.rlim_cur : before;
}

// The host that `address` names, with the port that was bound.
std::string WithPort(const std::string& address, int port) {
  if (address.starts_with("unix:")) return address;
  return absl::StrCat(address.substr(0, address.rfind(':')), ":", port);
}

// How long the program waits for the log to be written when it ends.
constexpr absl::Duration kLongestFlush = absl::Seconds(1);

// Says why the program ends: as a log line if programs read the log, otherwise in plain words.
void ReportFailure(std::string_view message) {
  if (batchplan::CurrentLogFormat() == batchplan::LogFormat::kJson) {
    Log(Severity::kError, "failed", {{"error", message}});
    batchplan::FlushLog(kLongestFlush);
  } else {
    std::cerr << "batchplan-server: " << message << "\n";
  }
}

int Serve(const ServerOptions& options) {
  // Blocked before the first thread starts. All threads inherit this, so that only sigwait receives
  // these signals.
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);

  const uint64_t open_files = RaiseOpenFileLimit();
  absl::StatusOr<std::unique_ptr<Server>> server = Server::Start(options);
  if (!server.ok()) {
    ReportFailure(std::string(server.status().message()));
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

  std::atomic<bool> deaf = false;
  (*server)->OnDeaf([&deaf] {
    deaf = true;
    kill(getpid(), SIGTERM);
  });
  int signal = 0;
  sigwait(&signals, &signal);
  (*server)->OnDeaf(nullptr);
  // From here on, signals have their default action: a second one ends the process at once.
  pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);
  Log(Severity::kInfo, "draining",
      {{"signal", deaf               ? "none"
                  : signal == SIGINT ? "SIGINT"
                                     : "SIGTERM"}});
  (*server)->Drain();
  Log(Severity::kInfo, "stopped");
  return deaf ? EXIT_FAILURE : EXIT_SUCCESS;
}

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
  // gRPC and the C++ runtime log the reason before they abort.
  std::signal(SIGABRT, &FlushLogBeforeAbort);
  batchplan::LogGrpcMessages();
  const int status = Serve(flags.server);
  batchplan::FlushLog(kLongestFlush);
  return status;
}

}  // namespace

int main(int argc, char** argv) {
  // Debian's Abseil otherwise records the order in which gRPC takes locks, at every lock.
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  batchplan::SpareAddressSpace();
  batchplan::KeepFreedMemory();
  try {
    return Run(argc, argv);
  } catch (const std::bad_alloc&) {
    std::fputs("batchplan-server: out of memory\n", stderr);
    return EXIT_FAILURE;
  } catch (const std::exception& error) {
    ReportFailure(error.what());
    return EXIT_FAILURE;
  }
}
