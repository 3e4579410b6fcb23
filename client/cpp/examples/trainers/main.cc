// Simulated trainers: several jobs ask a server for plans until they are stopped, so that its
// dashboards have something to show.
//
//   trainers_example --server dns:///planner:50051
//
// A target of several addresses is gone through in turn. SIGINT and SIGTERM end it.

#include <signal.h>

#include <CLI/CLI.hpp>
#include <atomic>
#include <cstdio>
#include <exception>
#include <map>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "batchplan/client.h"
#include "client/cpp/examples/trainers/job.h"
#include "server/base/mutex.h"

namespace batchplan::examples {
namespace {

std::atomic<bool> interrupted = false;

// The errors of a job. Each is printed once when it first occurs, and with its count at the end.
class Errors {
 public:
  void Add(const std::string& job, const absl::Status& status) {
    const MutexLock lock(mutex_);
    const std::string code = absl::StatusCodeToString(status.code());
    if (++counts_[{job, code}] > 1) return;
    absl::FPrintF(stderr, "%s: %s\n", job, status.ToString());
  }

  void Print() const {
    const MutexLock lock(mutex_);
    for (const auto& [error, count] : counts_) {
      absl::FPrintF(stderr, "%s: %s %d times\n", error.first, error.second, count);
    }
  }

 private:
  mutable Mutex mutex_;
  std::map<std::pair<std::string, std::string>, int> counts_ ABSL_GUARDED_BY(mutex_);
};

void Run(const std::string& server, absl::Duration interval, absl::Time end) {
  Errors errors;
  const auto stop = [end] { return interrupted.load() || absl::Now() >= end; };
  // The server may remember the steps of an earlier run, so that steps begin at a new number.
  const auto first = static_cast<uint64_t>(absl::ToUnixMillis(absl::Now()));
  {
    std::vector<std::jthread> threads;
    for (const Job& job : DemoJobs()) {
      for (uint32_t worker = 0; worker < job.workers; ++worker) {
        threads.emplace_back([&, job, worker] {
          const Client client(MakeRemoteConnection(server));
          RunWorker(client, job, worker, first, interval, stop,
                    [&](const absl::Status& status) { errors.Add(job.name, status); });
        });
      }
    }
  }
  errors.Print();
}

int Main(int argc, char** argv) {
  CLI::App app("Jobs that ask a batchplan server for plans, for its dashboards",
               "trainers_example");
  std::string server = "localhost:50051";
  double interval = 1;
  double seconds = 0;
  app.add_option("--server", server, "Address, or gRPC target")->capture_default_str();
  app.add_option("--interval", interval, "Seconds from step to step of a job")
      ->check(CLI::Range(0.001, 3600.0))
      ->capture_default_str();
  app.add_option("--seconds", seconds, "How long; 0: until it is stopped")
      ->check(CLI::Range(0.0, 1e6))
      ->capture_default_str();
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  for (const int number : {SIGINT, SIGTERM}) {
    signal(number, [](int) { interrupted = true; });
  }
  Run(server, absl::Seconds(interval),
      seconds > 0 ? absl::Now() + absl::Seconds(seconds) : absl::InfiniteFuture());
  return 0;
}

}  // namespace
}  // namespace batchplan::examples

int main(int argc, char** argv) {
  try {
    return batchplan::examples::Main(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "trainers_example: %s\n", error.what());
    return 1;
  }
}
