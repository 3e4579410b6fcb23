// Load on something that answers calls, and what came of it.
//
//   BenchResult result;
//   RunClosedLoop({.concurrency = 8, .warm_up = ..., .duration = ...}, call, &result);
//   result.latencies.Percentile(99);
//
// Closed loop: a fixed number of callers, each of which calls again as soon as it is answered; it
// measures throughput. Open loop: calls leave on a schedule, whether or not earlier ones are
// answered. Their latency counts from the moment they were due, so that a slow answer is charged
// for the calls that it held up (no "coordinated omission"); it measures the latency that users see
// at that rate.
//
// Calls that begin, or are due, within the warm-up are made and not counted. Both return once every
// call is answered.

#ifndef BATCHPLAN_CLIENT_CLI_BENCH_LOAD_H_
#define BATCHPLAN_CLIENT_CLI_BENCH_LOAD_H_

#include <cstddef>
#include <cstdint>
#include <functional>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "client/cli/bench/results.h"

namespace batchplan::cli {

// Begins a call and returns; `done` is called once, from any thread, also before it returns. `call`
// is called from several threads at once.
using AsyncCall = std::function<void(std::function<void(const absl::Status&)> done)>;

struct ClosedLoop {
  size_t concurrency = 1;
  absl::Duration warm_up;
  absl::Duration duration;
};

struct OpenLoop {
  // Calls a second, and whether they come at random (a Poisson process) or evenly.
  double rate = 1;
  bool poisson = true;
  uint64_t seed = 1;
  // Calls under way at the same time; one that is due beyond them waits, at its own expense.
  size_t max_outstanding = 10'000;
  absl::Duration warm_up;
  absl::Duration duration;
};

void RunClosedLoop(const ClosedLoop& load, const AsyncCall& call, BenchResult* result);
void RunOpenLoop(const OpenLoop& load, const AsyncCall& call, BenchResult* result);

}  // namespace batchplan::cli

#endif  // BATCHPLAN_CLIENT_CLI_BENCH_LOAD_H_
