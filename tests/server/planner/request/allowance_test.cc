#include "server/planner/request/allowance.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <stop_token>
#include <vector>

#include "server/planner/place/assign.h"
#include "server/planner/split/mini_batches.h"
#include "tests/support/generators.h"

namespace batchplan {
namespace {

TEST(AllowanceTest, HasNoLimitUnlessItIsGivenOne) {
  const Allowance allowance;
  allowance.Spend(~uint64_t{0});
  EXPECT_FALSE(allowance.spent());
  const SearchSteps steps(allowance, 1000, 10);
  EXPECT_EQ(steps.left, 1000);
}

TEST(AllowanceTest, CopiesDrawFromTheSameTicks) {
  const Allowance allowance(100, {});
  const Allowance copy = allowance;
  copy.Spend(60);
  EXPECT_EQ(allowance.left(), 40);
  allowance.Spend(60);
  EXPECT_TRUE(copy.spent());
  EXPECT_EQ(copy.used(), 120);
}

TEST(AllowanceTest, APartLeavesTheRestAndWhatItDidNotSpend) {
  const Allowance allowance(100, {});
  {
    const Allowance::Part part(allowance, 4);
    EXPECT_EQ(allowance.left(), 25);
    allowance.Spend(10);
    {
      const Allowance::Part half(allowance, 2);
      allowance.Spend(1000);
      EXPECT_TRUE(allowance.spent());
    }
    EXPECT_EQ(allowance.left(), 8);
  }
  EXPECT_EQ(allowance.left(), 83);
  const Allowance::Part all(allowance, 3, 3);
  EXPECT_EQ(allowance.left(), 83);
}

TEST(AllowanceTest, ASearchEndsWithItAndTakesAsLittleAsIsSaid) {
  const Allowance allowance(100, {});
  {
    SearchSteps steps(allowance, 1000, 10);
    EXPECT_EQ(steps.left, 10);
    steps.left -= 4;
  }
  EXPECT_EQ(allowance.left(), 60);
  {
    SearchSteps steps(allowance, 1000, 10, /*least=*/50);
    EXPECT_EQ(steps.left, 50);
    steps.left = 0;
  }
  EXPECT_TRUE(allowance.spent());
  EXPECT_EQ(SearchSteps(allowance, 30, 10, 50).left, 30);
  EXPECT_EQ(SearchSteps(allowance, 30, 10).left, 0);
}

TEST(AllowanceTest, KnowsOfAStop) {
  std::stop_source source;
  const Allowance allowance = source.get_token();
  EXPECT_FALSE(allowance.stop_requested());
  source.request_stop();
  EXPECT_TRUE(allowance.stop_requested());
}

// Discards all placements.
class NoSink : public PlacementSink {
 public:
  void Add(size_t, size_t, Placement) override {}
  void Clear() override {}
};

// A request whose mini-batches are all hard to pack, so that every search uses its steps.
class SharedStepsTest : public ::testing::Test {
 protected:
  // How many ticks of an allowance mini-batches of this size use.
  uint64_t Used(uint32_t size, size_t passes, uint64_t ticks) {
    PlanOptions options = options_;
    options.mini_batches.size = size;
    for (uint32_t i = 1; i < passes; ++i) {
      options.passes.push_back(options.passes[0]);
      options.passes[i].max_tokens_per_microbatch += i;
    }
    const Manifest manifest{.lengths = lengths_};
    const Groups groups(manifest, GroupPolicy::kIgnore);
    const PlannedLengths planned{.lengths = lengths_, .excluded = {}};
    const SequenceLists mini_batches =
        *SplitIntoMiniBatches(manifest, lengths_, groups, options.mini_batches);
    std::vector<Pass> instances;
    Alignments alignments(planned.lengths);
    for (size_t i = 0; i < options.passes.size(); ++i) {
      const uint32_t budget = options.passes[i].max_tokens_per_microbatch;
      instances.push_back(*Pass::Create(manifest, options, i, {{.capacity = budget}}, planned,
                                        alignments, groups, mini_batches.size()));
    }
    const Allowance allowance(ticks, {});
    NoSink sink;
    EXPECT_TRUE(AssignAll(BatchPasses(instances, mini_batches), 0, allowance, sink).ok());
    return allowance.used();
  }

  static PlanOptions Options() {
    PlanOptions options;
    options.topology.data_parallel = 4;
    options.synchronization = Synchronization::kAccumulated;
    options.passes.emplace_back();
    options.passes[0].max_tokens_per_microbatch = kBudget;
    return options;
  }

  static constexpr uint32_t kBudget = 16384;
  static constexpr uint64_t kUnlimited = uint64_t{1} << 62;
  // A plan needs at least these, whatever the allowance.
  static constexpr uint64_t kTicksEach = 1500;

  const PlanOptions options_ = Options();
  const std::vector<uint32_t> lengths_ = [] {
    testing::RandomStream random(1);
    std::vector<uint32_t> lengths;
    for (int i = 0; i < 3000; ++i)
      lengths.push_back(static_cast<uint32_t>(random.Between(5000, 6000)));
    return lengths;
  }();
};

TEST_F(SharedStepsTest, AllMiniBatchesTogetherTakeWhatTheRequestIsAllowed) {
  const uint64_t ticks = 5'000'000;
  const uint64_t most = ticks + kTicksEach * lengths_.size();
  EXPECT_GT(Used(100, 1, kUnlimited), 4 * most);
  for (const uint32_t size : {100, 300, 1500, 3000}) {
    EXPECT_LE(Used(size, 1, ticks), most) << size;
  }
}

TEST_F(SharedStepsTest, AllPassesTogetherTakeWhatTheRequestIsAllowed) {
  const uint64_t ticks = 5'000'000;
  const uint64_t most = ticks + kTicksEach * 8 * lengths_.size();
  EXPECT_GT(Used(300, 8, kUnlimited), 4 * most);
  EXPECT_LE(Used(300, 8, ticks), most);
}

TEST_F(SharedStepsTest, PassesOfEqualOptionsAreWorkedOutOnce) {
  PlanOptions options = options_;
  const Manifest manifest{.lengths = lengths_};
  const Groups groups(manifest, GroupPolicy::kIgnore);
  const PlannedLengths planned{.lengths = lengths_, .excluded = {}};
  const SequenceLists mini_batches = *SplitIntoMiniBatches(manifest, lengths_, groups, {});
  std::vector<uint64_t> used;
  for (const size_t passes : {2, 3, 8}) {
    while (options.passes.size() < passes) {
      options.passes.push_back(options.passes[0]);
      options.passes.back().name = "pass " + std::to_string(options.passes.size());
    }
    std::vector<Pass> instances;
    Alignments alignments(planned.lengths);
    for (size_t i = 0; i < passes; ++i) {
      const uint32_t budget = options.passes[i].max_tokens_per_microbatch;
      instances.push_back(*Pass::Create(manifest, options, i, {{.capacity = budget}}, planned,
                                        alignments, groups, 1));
    }
    const Allowance allowance(kUnlimited, {});
    NoSink sink;
    ASSERT_TRUE(AssignAll(BatchPasses(instances, mini_batches), 0, allowance, sink).ok());
    used.push_back(allowance.used());
  }
  EXPECT_THAT(used, ::testing::Each(used[0]));
}

}  // namespace
}  // namespace batchplan
