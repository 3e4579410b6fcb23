// A stop that is requested while a large request is planned ends the planning soon, whatever is
// being done. How soon is measured in processor time of the planning thread and told as a property;
// asserted is only what no machine in its right mind exceeds.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pthread.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <ctime>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "server/planner/make_plan.h"
#include "tests/support/checked_plan.h"
#include "tests/support/generators.h"

namespace batchplan {
namespace {

using testing::PackedOptions;

double SecondsOf(clockid_t clock) {
  timespec time;
  clock_gettime(clock, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

// Processor seconds from the request, made when planning has had this many, to the end; below 0 if
// the plan was there before.
double SecondsToStop(const std::vector<uint32_t>& lengths, const PlanOptions& options,
                     double after) {
  std::stop_source stop;
  clockid_t clock = 0;
  pthread_getcpuclockid(pthread_self(), &clock);
  const double start = SecondsOf(clock);
  std::atomic<bool> done = false;
  double requested = 0;
  std::thread requester([&] {
    while (!done && SecondsOf(clock) - start < after) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    requested = SecondsOf(clock);
    stop.request_stop();
  });
  const absl::StatusOr<Plan> plan = MakePlan({.lengths = lengths}, options, stop.get_token());
  const double end = SecondsOf(clock);
  done = true;
  requester.join();
  if (plan.ok()) return -1;
  EXPECT_EQ(plan.status().code(), absl::StatusCode::kCancelled) << plan.status();
  return end - requested;
}

constexpr double kFarTooLong = 1.5;

void ExpectSoon(size_t sequences, const PlanOptions& options, const std::vector<double>& times) {
  testing::RandomStream random(1);
  std::vector<uint32_t> lengths;
  for (size_t i = 0; i < sequences; ++i) {
    lengths.push_back(static_cast<uint32_t>(random.Between(1, 127)));
  }
  double worst = 0;
  for (const double after : times) {
    const double seconds = SecondsToStop(lengths, options, after);
    EXPECT_LT(seconds, kFarTooLong) << "requested after " << after << " s";
    worst = std::max(worst, seconds);
  }
  ::testing::Test::RecordProperty("worst_milliseconds",
                                  std::to_string(static_cast<int>(1000 * worst)));
}

TEST(StopTest, RequestedBeforehandIsAnErrorAndNoPlan) {
  std::stop_source source;
  source.request_stop();
  const std::vector<uint32_t> lengths = {1, 2, 3};
  EXPECT_EQ(
      MakePlan({.lengths = lengths}, PackedOptions(10, Packer::kConcatenative), source.get_token())
          .status()
          .code(),
      absl::StatusCode::kCancelled);
}

TEST(StopTest, WhileManyPassesAreSetUpAndPlanned) {
  PlanOptions options = PackedOptions(4096, Packer::kBalanced, 16, Sharding::kBalanced);
  options.effort = Effort::kFast;
  for (uint32_t i = 1; i < 64; ++i) {
    options.passes.push_back(options.passes[0]);
    options.passes[i].name = std::to_string(i);
    options.passes[i].max_tokens_per_microbatch += i;
    options.passes[i].length_multiple = 1 + i % 8;
  }
  ExpectSoon(65'000, options, {0, 0.02, 0.05, 0.1});
}

TEST(StopTest, WithinAPackingOfAMillion) {
  for (const Packer packer : {Packer::kBalanced, Packer::kFirstFitShuffle,
                              Packer::kModifiedFirstFitDecreasing, Packer::kKarmarkarKarp}) {
    const PlanOptions options = PackedOptions(4096, packer, 16, Sharding::kDealBins);
    ExpectSoon(1'000'000, options, {0.05, 0.2, 0.5});
  }
}

TEST(StopTest, WithinAPaddedSplitOfAMillion) {
  PlanOptions options = PackedOptions(4096, Packer::kBalanced, 16, Sharding::kLpt);
  options.passes[0].layout = Layout::kPadded;
  options.passes[0].scan = Scan::kOptimal;
  ExpectSoon(1'000'000, options, {0.2, 0.4, 0.8});
}

TEST(StopTest, WhilePoolsOfRanksAreDivided) {
  for (const Synchronization synchronization :
       {Synchronization::kLockstep, Synchronization::kAccumulated}) {
    for (const uint32_t pool : {64u, 4096u}) {
      PlanOptions options = PackedOptions(96, Packer::kBalanced, pool, Sharding::kBalanced);
      options.topology.dynamic_context.emplace();
      options.cost_model.exchange = {{.up_to_size = 0, .per_token = 0.065}};
      options.synchronization = synchronization;
      ExpectSoon(1'000'000, options, {0.02, 0.1, 0.3, 0.6, 0.9});
    }
  }
}

TEST(StopTest, WhileBatchesAreChosenAndDelayed) {
  PlanOptions options = PackedOptions(4096, Packer::kBalanced, 64, Sharding::kBalanced);
  options.selection = {.sequences = 500'000, .max_overtaking = 400'000};
  ExpectSoon(1'000'000, options, {0.1, 0.3, 0.6, 0.9});
  options.selection.reset();
  options.mini_batches = {.size = 1000, .max_delay = 100};
  ExpectSoon(1'000'000, options, {0.3, 0.6, 0.9});
}

TEST(StopTest, WhileOrdersOfPipelinesAreLookedFor) {
  for (const Synchronization synchronization :
       {Synchronization::kLockstep, Synchronization::kAccumulated}) {
    PlanOptions options = PackedOptions(160, Packer::kBalanced, 4, Sharding::kBalanced);
    options.topology.pipeline_parallel = 8;
    options.topology.virtual_pipeline = 2;
    options.synchronization = synchronization;
    options.cost_model.per_microbatch = 1024;
    options.effort = Effort::kThorough;
    options.passes[0].order = MicrobatchOrder::kPipeline;
    ExpectSoon(60'000, options, {0.1, 0.8});
    ExpectSoon(600'000, options, {0.5, 1.5});
  }
}

}  // namespace
}  // namespace batchplan
