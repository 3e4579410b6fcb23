// Plans of small batches beside the best that there is, found by trying all divisions among ranks,
// packings and orders.

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "server/planner/make_plan.h"
#include "server/planner/request/presets.h"
#include "server/planner/time/simulator.h"
#include "tests/support/checked_plan.h"
#include "tests/support/generators.h"

namespace batchplan {
namespace {

using testing::RandomStream;

constexpr uint32_t kRanks = 2;
constexpr double kUnreachable = std::numeric_limits<double>::infinity();

struct SmallBatch {
  std::vector<uint32_t> lengths;
  PlanOptions options;

  std::string Describe() const {
    const Topology& t = options.topology;
    return absl::StrCat(
        "lengths ", absl::StrJoin(lengths, ","), " budget ",
        options.passes[0].max_tokens_per_microbatch, " minimum ",
        options.passes[0].min_microbatches, " PP ", t.pipeline_parallel, " VPP ",
        t.virtual_pipeline, " shares ", absl::StrJoin(options.pipeline.stage_shares, ","),
        " transfer ", options.pipeline.transfer, options.passes[0].forward_only ? " forwards" : "",
        " per_microbatch ", options.cost_model.per_microbatch, " synchronization ",
        static_cast<int>(options.synchronization));
  }
};

SmallBatch RandomBatch(RandomStream& random, Synchronization synchronization) {
  SmallBatch batch;
  // In lockstep all divisions of both ranks at once are tried.
  const size_t count = synchronization == Synchronization::kLockstep ? 6 : 8;
  for (size_t i = 0; i < count; ++i) {
    batch.lengths.push_back(random.Between(1, random.Between(0, 3) == 0 ? 1000 : 200));
  }
  const uint32_t longest = *std::max_element(batch.lengths.begin(), batch.lengths.end());
  batch.options.topology.data_parallel = kRanks;
  batch.options.topology.pipeline_parallel = random.Between(2, 4);
  if (batch.options.topology.pipeline_parallel == 2 && random.Chance(30)) {
    batch.options.topology.virtual_pipeline = 2;
  }
  if (random.Chance(30)) batch.options.pipeline.transfer = 10;
  if (random.Chance(30)) {
    const uint32_t stages =
        batch.options.topology.pipeline_parallel * batch.options.topology.virtual_pipeline;
    for (uint32_t q = 0; q < stages; ++q) {
      batch.options.pipeline.stage_shares.push_back(static_cast<double>(random.Between(1, 3)));
    }
  }
  batch.options.synchronization = synchronization;
  batch.options.cost_model.per_microbatch = random.OneOf<double>({0, 10, 100});
  batch.options.passes.push_back(PresetPass("balanced", batch.options.topology).value());
  batch.options.passes[0].max_tokens_per_microbatch = longest + random.Between(0, longest);
  batch.options.passes[0].forward_only = random.Chance(20);
  batch.options.passes[0].min_microbatches = random.OneOf<uint32_t>({1, 1, 2, 3});
  return batch;
}

// The least makespan of every set of sequences, by its bits, in every number of micro-batches.
class BestMakespans {
 public:
  explicit BestMakespans(const SmallBatch& batch)
      : batch_(batch),
        pipeline_(PipelineOf(batch.options.topology, batch.options.pipeline,
                             batch.options.passes[0].forward_only)) {
    const size_t sets = size_t{1} << batch.lengths.size();
    for (size_t set = 0; set < sets; ++set) {
      uint64_t tokens = 0;
      double cost = batch.options.cost_model.per_microbatch;
      for (size_t i = 0; i < batch.lengths.size(); ++i) {
        if ((set >> i & 1) == 0) continue;
        const double length = batch.lengths[i];
        tokens += batch.lengths[i];
        cost += batch.options.cost_model.per_token * length +
                batch.options.cost_model.per_token_squared * length * length;
      }
      const bool fits = tokens <= batch.options.passes[0].max_tokens_per_microbatch;
      costs_.push_back(fits ? cost : kUnreachable);
    }
  }

  double Accumulated() {
    const size_t all = costs_.size() - 1;
    double best = kUnreachable;
    for (uint32_t slots = fewest(); slots <= batch_.lengths.size() / kRanks; slots += group()) {
      PipelineSimulator simulator(pipeline_, slots);
      std::vector<double> least(costs_.size(), kUnreachable);
      for (size_t set = 1; set < all; ++set) {
        if (std::popcount(set) < static_cast<int>(slots)) continue;
        std::vector<double> micro;
        LeastOf(set, slots, micro, simulator, least[set]);
      }
      for (size_t set = 1; set < all; ++set) {
        best = std::min(best, std::max(least[set], least[all - set]));
      }
    }
    return best;
  }

  double Lockstep() {
    double best = kUnreachable;
    for (uint32_t slots = fewest(); slots <= batch_.lengths.size() / kRanks; slots += group()) {
      PipelineSimulator simulator(pipeline_, slots);
      std::vector<double> micro;
      LeastOfPairs(costs_.size() - 1, slots, micro, simulator, best);
    }
    return best;
  }

 private:
  // Of which there is a multiple.
  uint32_t group() const { return pipeline_.interleaved ? pipeline_.group_size : 1; }
  uint32_t fewest() const {
    const uint32_t minimum = batch_.options.passes[0].min_microbatches;
    return (minimum + group() - 1) / group() * group();
  }

  // Ways to take the first micro-batch of `set`, then the next.
  void LeastOf(size_t set, size_t slots, std::vector<double>& micro, PipelineSimulator& simulator,
               double& least) {
    if (micro.size() + 1 == slots) {
      if (costs_[set] == kUnreachable) return;
      micro.push_back(costs_[set]);
      least = std::min(least, simulator.Makespan(micro));
      micro.pop_back();
      return;
    }
    for (size_t first = (set - 1) & set; first > 0; first = (first - 1) & set) {
      if (costs_[first] == kUnreachable) continue;
      micro.push_back(costs_[first]);
      LeastOf(set - first, slots, micro, simulator, least);
      micro.pop_back();
    }
  }

  // The same of the slots' maxima: a slot has two micro-batches, of which the first is no cheaper.
  void LeastOfPairs(size_t left, size_t slots, std::vector<double>& micro,
                    PipelineSimulator& simulator, double& least) {
    if (micro.size() == slots) {
      if (left == 0) least = std::min(least, simulator.Makespan(micro));
      return;
    }
    for (size_t first = left; first > 0; first = (first - 1) & left) {
      if (costs_[first] == kUnreachable) continue;
      const size_t others = left - first;
      for (size_t second = others; second > 0; second = (second - 1) & others) {
        if (costs_[second] > costs_[first]) continue;
        micro.push_back(costs_[first]);
        LeastOfPairs(others - second, slots, micro, simulator, least);
        micro.pop_back();
      }
    }
  }

  const SmallBatch& batch_;
  const Pipeline pipeline_;
  std::vector<double> costs_;  // of one micro-batch, by its sequences' bits
};

class SmallBatchesTest : public ::testing::TestWithParam<Synchronization> {};

TEST_P(SmallBatchesTest, ArePlannedNearlyAsWellAsCanBe) {
  constexpr int kBatches = 60;
  double by_default = 0;
  double thorough = 0;
  int compared = 0;
  for (int i = 0; i < kBatches; ++i) {
    RandomStream random(i + 1);
    SmallBatch batch = RandomBatch(random, GetParam());
    BestMakespans makespans(batch);
    const double best =
        GetParam() == Synchronization::kLockstep ? makespans.Lockstep() : makespans.Accumulated();
    if (best == kUnreachable) continue;
    for (const Effort effort : {Effort::kDefault, Effort::kThorough}) {
      batch.options.effort = effort;
      const auto plan = testing::MakeCheckedPlan(Manifest{.lengths = batch.lengths}, batch.options);
      ASSERT_TRUE(plan.ok()) << plan.status() << " " << batch.Describe();
      const PlanMetrics& metrics = plan->passes[0].metrics;
      ASSERT_GE(metrics.predicted_step_time, best * (1 - 1e-9)) << batch.Describe();
      ASSERT_LE(metrics.lower_bound_step_time, best * (1 + 1e-9)) << batch.Describe();
      const double over = metrics.predicted_step_time / best - 1;
      (effort == Effort::kDefault ? by_default : thorough) += over;
    }
    ++compared;
  }
  ASSERT_GT(compared, kBatches / 2);
  RecordProperty("default_over_best", std::to_string(by_default / compared));
  RecordProperty("thorough_over_best", std::to_string(thorough / compared));
  EXPECT_LE(by_default / compared, 0.01);
  EXPECT_LE(thorough / compared, 0.003);
}

INSTANTIATE_TEST_SUITE_P(Synchronizations, SmallBatchesTest,
                         ::testing::Values(Synchronization::kAccumulated,
                                           Synchronization::kLockstep),
                         [](const ::testing::TestParamInfo<Synchronization>& info) {
                           return info.param == Synchronization::kLockstep ? "Lockstep"
                                                                           : "Accumulated";
                         });

}  // namespace
}  // namespace batchplan
