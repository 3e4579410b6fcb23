// Padded rows on ranks with equally many sequences, or with groups that keep to a rank, beside the
// best of all plans of a few sequences.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iostream>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "server/planner/make_plan.h"
#include "tests/support/checked_plan.h"
#include "tests/support/generators.h"

namespace batchplan {
namespace {

using testing::RandomStream;

constexpr double kNoPlan = std::numeric_limits<double>::max();

struct PaddedRequest {
  std::vector<uint32_t> lengths;
  std::vector<uint32_t> groups;
  PlanOptions options;

  uint32_t ranks() const { return options.topology.data_parallel; }
  const PassOptions& pass() const { return options.passes.front(); }
  double CostOf(double width, size_t sequences) const {
    return (width + options.cost_model.per_token_squared * width * width) *
           static_cast<double>(sequences);
  }
  std::string Describe() const {
    return absl::StrCat("dp ", ranks(), " sync ", static_cast<int>(options.synchronization),
                        " counts ", static_cast<int>(pass().sequence_counts), " fixed ",
                        options.cost_model.per_microbatch, " budget ",
                        pass().max_tokens_per_microbatch, " lengths ", absl::StrJoin(lengths, ","));
  }
};

PaddedRequest RequestOfEqualCounts(uint64_t seed) {
  RandomStream random(seed);
  PaddedRequest request;
  PlanOptions& options = request.options;
  options.topology.data_parallel = static_cast<uint32_t>(random.Between(2, 4));
  options.synchronization =
      random.Chance(50) ? Synchronization::kLockstep : Synchronization::kAccumulated;
  options.cost_model.per_token_squared = 0.01;
  options.cost_model.per_microbatch = random.Chance(50) ? 0 : 10;
  PassOptions& pass = options.passes.emplace_back();
  pass.layout = Layout::kPadded;
  pass.max_tokens_per_microbatch = static_cast<uint32_t>(random.Between(100, 400));
  pass.sequence_counts = random.Chance(50) ? EqualCounts::kExact : EqualCounts::kWithinOne;
  uint64_t count = random.Between(options.topology.data_parallel, 8);
  if (pass.sequence_counts == EqualCounts::kExact) count -= count % options.topology.data_parallel;
  const bool long_tail = random.Chance(50);
  for (uint64_t i = 0; i < count; ++i) {
    const uint64_t most = long_tail && random.Chance(70) ? 10 : 100;
    request.lengths.push_back(static_cast<uint32_t>(random.Between(1, most)));
  }
  return request;
}

PaddedRequest RequestOfAnyCounts(uint64_t seed) {
  PaddedRequest request = RequestOfEqualCounts(seed);
  request.options.passes[0].sequence_counts = EqualCounts::kAny;
  return request;
}

// Pairs of sequences keep to one rank.
PaddedRequest RequestOfGroups(uint64_t seed) {
  PaddedRequest request = RequestOfAnyCounts(seed);
  request.options.mini_batches.groups = GroupPolicy::kSameRank;
  for (uint32_t i = 0; i < request.lengths.size(); ++i) request.groups.push_back(i / 2);
  return request;
}

// The best of all plans: every division among the ranks, and every division of a rank's sequences.
class AllPlans {
 public:
  explicit AllPlans(const PaddedRequest& request)
      : request_(request), bins_(request.ranks()), rank_of_(request.lengths.size()) {}

  double ShortestStep() {
    Place(0);
    return best_;
  }

 private:
  struct Bin {
    uint32_t width = 0;
    size_t sequences = 0;
  };

  void Place(size_t sequence) {
    if (sequence == request_.lengths.size()) {
      if (IsPlan()) best_ = std::min(best_, Time());
      return;
    }
    for (uint32_t rank = 0; rank < bins_.size(); ++rank) {
      if (!MayTake(rank, sequence)) continue;
      rank_of_[sequence] = rank;
      std::vector<Bin>& own = bins_[rank];
      const bool was_empty = own.empty();
      own.emplace_back();
      for (size_t bin = own.size(); bin-- > 0;) {
        const Bin before = own[bin];
        own[bin] = {.width = std::max(before.width, request_.lengths[sequence]),
                    .sequences = before.sequences + 1};
        if (own[bin].sequences * own[bin].width <= request_.pass().max_tokens_per_microbatch) {
          Place(sequence + 1);
        }
        own[bin] = before;
        // Removes the new bin, which is tried first.
        if (before.sequences == 0) own.pop_back();
      }
      // Ranks are alike.
      if (was_empty) return;
    }
  }

  bool MayTake(uint32_t rank, size_t sequence) const {
    const std::vector<uint32_t>& groups = request_.groups;
    return groups.empty() || sequence == 0 || groups[sequence] != groups[sequence - 1] ||
           rank == rank_of_[sequence - 1];
  }

  bool IsPlan() const {
    size_t fewest = request_.lengths.size();
    size_t most = 0;
    for (const std::vector<Bin>& own : bins_) {
      size_t sequences = 0;
      for (const Bin& bin : own) sequences += bin.sequences;
      fewest = std::min(fewest, sequences);
      most = std::max(most, sequences);
      if (own.size() != bins_.front().size()) return false;
    }
    if (!request_.pass().keeps_counts()) return true;
    const size_t allowed = request_.pass().sequence_counts == EqualCounts::kWithinOne ? 1 : 0;
    return most - fewest <= allowed;
  }

  double Time() const {
    const size_t slots = bins_.front().size();
    std::vector<double> of_slots(slots, 0);
    double most = 0;
    for (const std::vector<Bin>& own : bins_) {
      std::vector<double> costs;
      double sum = 0;
      for (const Bin& bin : own) {
        costs.push_back(request_.CostOf(bin.width, bin.sequences));
        sum += costs.back();
      }
      most = std::max(most, sum);
      std::ranges::sort(costs, std::greater<>());
      for (size_t slot = 0; slot < slots; ++slot) {
        of_slots[slot] = std::max(of_slots[slot], costs[slot]);
      }
    }
    if (request_.options.synchronization == Synchronization::kLockstep) {
      most = 0;
      for (const double slot : of_slots) most += slot;
    }
    return most + static_cast<double>(slots) * request_.options.cost_model.per_microbatch;
  }

  const PaddedRequest& request_;
  std::vector<std::vector<Bin>> bins_;  // of each rank
  std::vector<uint32_t> rank_of_;
  double best_ = kNoPlan;
};

struct OfAllPlans {
  // Of `balanced` over the best of all plans, the geometric mean's logarithm.
  double logarithm = 0;
  double worst = 1;
};

OfAllPlans PaddedBesideAllPlans(PaddedRequest (*request_of)(uint64_t), Effort effort) {
  OfAllPlans all;
  uint64_t longer = 0;
  uint64_t planned = 0;
  for (const uint64_t seed : testing::Seeds(600)) {
    PaddedRequest request = request_of(seed);
    request.options.effort = effort;
    const double best = AllPlans(request).ShortestStep();
    const auto plan = testing::MakeCheckedPlan(
        {.lengths = request.lengths, .group_ids = request.groups}, request.options);
    if (!plan.ok()) {
      EXPECT_TRUE(testing::IsClearRefusal(plan.status())) << plan.status();
      EXPECT_EQ(best, kNoPlan) << "seed " << seed << "\n" << request.Describe();
      continue;
    }
    const PlanMetrics& metrics = plan->passes[0].metrics;
    EXPECT_LE(metrics.lower_bound_step_time, best * (1 + 1e-9)) << request.Describe();
    const double ratio = metrics.predicted_step_time / best;
    EXPECT_GE(ratio, 1 - 1e-9) << request.Describe();
    ++planned;
    all.logarithm += std::log(ratio);
    longer += ratio > 1 + 1e-9 ? 1 : 0;
    all.worst = std::max(all.worst, ratio);
  }
  EXPECT_GT(planned, testing::Cases(600) / 2);
  all.logarithm /= static_cast<double>(planned);
  std::cout << planned << " plans, " << std::exp(all.logarithm) << " times the optimum, at worst "
            << all.worst << ", " << longer << " longer\n";
  return all;
}

TEST(PaddedCountsTest, EqualCountsHaveTheBestOfAllPlans) {
  for (const Effort effort : {Effort::kDefault, Effort::kThorough}) {
    const OfAllPlans all = PaddedBesideAllPlans(RequestOfEqualCounts, effort);
    EXPECT_LE(all.logarithm, 0.0005);
    EXPECT_LE(all.worst, 1.05);
  }
}

TEST(PaddedCountsTest, AnyCountsAreNearTheBestOfAllPlans) {
  EXPECT_LE(PaddedBesideAllPlans(RequestOfAnyCounts, Effort::kDefault).logarithm, 0.005);
}

TEST(PaddedCountsTest, GroupsOnOneRankAreNearTheBestOfAllPlans) {
  EXPECT_LE(PaddedBesideAllPlans(RequestOfGroups, Effort::kDefault).logarithm, 0.05);
}

}  // namespace
}  // namespace batchplan
