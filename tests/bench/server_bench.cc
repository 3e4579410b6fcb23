// Plans through a batchplan-server process of its own, over loopback, and that process's peak
// memory.
//
//   build/release/bench/server_bench
//
// peak_MiB is the server's resident high-water mark (VmHWM) after the plans of that size; sizes
// rise, so each line's peak is its own. idle_MiB is what the server takes before its first plan.
//
// echo_ms is an RPC with the same request that is answered with the same plan, ready-made; bytes_ms
// is one that carries the same bytes and parses none. They are measured by turns with the plans;
// of_echo and of_bytes are what a plan takes beyond planning_ms, in such RPCs.

#include <benchmark/benchmark.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "batchplan/client.h"
#include "tests/bench/echo_server.h"
#include "tests/support/generators.h"

extern char** environ;

namespace batchplan {
namespace {

// A server on a Unix socket, started by the first benchmark and ended with the process.
class ServerProcess {
 public:
  ServerProcess() : socket_(absl::StrCat("unix:/tmp/batchplan-bench-", getpid(), ".sock")) {
    std::vector<std::string> arguments = {BATCHPLAN_SERVER, "--listen=" + socket_,
                                          "--metrics_listen=off", "--drain_delay=0",
                                          // Every plan is to be made.
                                          "--plan_cache_bytes=0"};
    std::vector<char*> argv;
    for (std::string& argument : arguments) argv.push_back(argument.data());
    argv.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", 1 /* O_WRONLY */, 0);
    if (posix_spawn(&pid_, argv[0], &actions, nullptr, argv.data(), environ) != 0) {
      std::perror("batchplan-server");
      std::exit(1);
    }
    posix_spawn_file_actions_destroy(&actions);
  }

  ~ServerProcess() {
    kill(pid_, SIGTERM);
    waitpid(pid_, nullptr, 0);
  }

  const std::string& target() const { return socket_; }

  double PeakMiB() const {
    std::ifstream status(absl::StrCat("/proc/", pid_, "/status"));
    for (std::string line; std::getline(status, line);) {
      if (line.starts_with("VmHWM:")) return std::strtod(line.c_str() + 6, nullptr) / 1024;
    }
    return 0;
  }

 private:
  std::string socket_;
  pid_t pid_ = 0;
};

v1::PlanBatchRequest Request(size_t sequences) {
  v1::PlanBatchRequest request;
  request.set_preset("nemo_rl_packing");
  request.mutable_topology()->set_data_parallel(16);
  request.add_passes()->set_max_tokens_per_microbatch(16384);
  const std::vector<uint32_t> lengths = testing::MathsLengths(sequences, 1);
  request.mutable_manifest()->mutable_lengths()->Add(lengths.begin(), lengths.end());
  return request;
}

double Milliseconds(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start)
      .count();
}

void PlanThroughServer(benchmark::State& state) {
  static ServerProcess server;
  // The retries of the first call wait for the server to listen.
  static Client client(MakeRemoteConnection(server.target(), {.max_attempts = 5}));
  static const double idle = client.PlanBatch(Request(256)).ok() ? server.PeakMiB() : 0;

  const v1::PlanBatchRequest request = Request(static_cast<size_t>(state.range(0)));
  static EchoServer echo;
  const std::string request_bytes = request.SerializeAsString();
  double total_ms = 0;
  double planning_ms = 0;
  double echo_ms = 0;
  double bytes_ms = 0;
  size_t response_bytes = 0;
  for (auto _ : state) {
    absl::StatusOr<v1::PlanBatchResponse> plan;
    const double plan_ms = Milliseconds([&] { plan = client.PlanBatch(request); });
    if (!plan.ok()) {
      state.SkipWithError(plan.status().ToString().c_str());
      break;
    }
    total_ms += plan_ms;
    planning_ms += static_cast<double>(plan->planning_time().nanos()) * 1e-6 +
                   static_cast<double>(plan->planning_time().seconds()) * 1e3;
    state.SetIterationTime(plan_ms / 1e3);

    echo.Answer(*plan);
    response_bytes = plan->ByteSizeLong();
    grpc::Status echoed;
    echo_ms += Milliseconds([&] { echoed = echo.Call(request); });
    if (echoed.ok()) bytes_ms += Milliseconds([&] { echoed = echo.CallBytes(request_bytes); });
    if (!echoed.ok()) {
      state.SkipWithError(echoed.error_message().c_str());
      break;
    }
  }
  const benchmark::Counter::Flags mean = benchmark::Counter::kAvgIterations;
  state.counters["planning_ms"] = benchmark::Counter(planning_ms, mean);
  state.counters["echo_ms"] = benchmark::Counter(echo_ms, mean);
  state.counters["bytes_ms"] = benchmark::Counter(bytes_ms, mean);
  state.counters["of_echo"] = (total_ms - planning_ms) / echo_ms;
  state.counters["of_bytes"] = (total_ms - planning_ms) / bytes_ms;
  state.counters["request_KiB"] = static_cast<double>(request_bytes.size()) / 1024;
  state.counters["response_KiB"] = static_cast<double>(response_bytes) / 1024;
  state.counters["idle_MiB"] = idle;
  state.counters["peak_MiB"] = server.PeakMiB();
}

BENCHMARK(PlanThroughServer)
    ->Arg(256)
    ->Arg(4096)
    ->Arg(65536)
    ->Arg(1'000'000)
    ->Unit(benchmark::kMillisecond)
    ->UseManualTime();

}  // namespace
}  // namespace batchplan
