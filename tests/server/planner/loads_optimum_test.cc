// Plans of a few sequences with loads, compared with the best plans, which are found by trying
// every assignment.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iostream>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "server/planner/make_plan.h"
#include "tests/support/assignments.h"
#include "tests/support/checked_plan.h"
#include "tests/support/generators.h"

namespace batchplan {
namespace {

// A request of a few sequences with one or two loads; the first may have items.
struct SmallRequest {
  std::vector<uint32_t> lengths;
  std::vector<uint32_t> ranks;
  std::vector<std::vector<double>> values;
  std::vector<uint32_t> item_sequences;
  std::vector<double> item_values;
  PlanOptions options;

  Manifest manifest() const {
    Manifest manifest = {.lengths = lengths, .ranks = ranks};
    for (size_t load = 0; load < values.size(); ++load) {
      manifest.loads.push_back({.name = Name(load), .values = values[load]});
    }
    if (!item_sequences.empty()) {
      manifest.loads[0].values = {};
      manifest.items = {{.load = Name(0), .sequences = item_sequences, .values = item_values}};
    }
    return manifest;
  }
  static const char* Name(size_t load) { return load == 0 ? "patches" : "frames"; }

  std::string Describe() const {
    std::string text = absl::StrCat(
        "dp ", options.topology.data_parallel, " sync ", static_cast<int>(options.synchronization),
        " empty ", options.allow_empty_microbatches, " budget ",
        options.passes[0].max_tokens_per_microbatch, " lengths ", absl::StrJoin(lengths, ","),
        " ranks ", absl::StrJoin(ranks, ","));
    for (const std::vector<double>& of_load : values) {
      absl::StrAppend(&text, " load ", absl::StrJoin(of_load, ","));
    }
    absl::StrAppend(&text, " items ", absl::StrJoin(item_sequences, ","), ":",
                    absl::StrJoin(item_values, ","));
    for (const LoadLimit& limit : options.passes[0].limits) {
      absl::StrAppend(&text, " limit ", limit.load, " ", limit.max_per_microbatch);
    }
    for (const LoadCost& cost : options.cost_model.loads) {
      absl::StrAppend(&text, " cost ", cost.load, " ", cost.per_unit, cost.separate ? " sep" : "",
                      cost.dealt ? " dealt" : "");
    }
    return text;
  }
};

SmallRequest RequestOf(uint64_t seed) {
  testing::RandomStream random(seed);
  SmallRequest request;
  PlanOptions& options = request.options;
  const auto count = static_cast<size_t>(random.Between(1, 5));
  options.topology.data_parallel = static_cast<uint32_t>(random.Between(1, 2));
  options.synchronization =
      random.Chance(50) ? Synchronization::kLockstep : Synchronization::kAccumulated;
  options.allow_empty_microbatches = random.Chance(40);
  options.effort = random.OneOf<Effort>({Effort::kFast, Effort::kDefault, Effort::kThorough});
  options.cost_model.per_token_squared = 0.01;
  if (random.Chance(20)) options.cost_model.per_microbatch = 5;
  PassOptions& pass = options.passes.emplace_back();
  pass.max_tokens_per_microbatch = static_cast<uint32_t>(random.Between(20, 60));
  const auto loads = static_cast<size_t>(random.Between(1, 2));
  const bool has_items = random.Chance(40);
  for (size_t load = 0; load < loads; ++load) request.values.emplace_back();
  for (uint32_t i = 0; i < count; ++i) {
    request.lengths.push_back(static_cast<uint32_t>(random.Between(1, 20)));
    for (size_t load = 0; load < loads; ++load) {
      request.values[load].push_back(
          random.Chance(40) ? 0 : static_cast<double>(random.Between(1, 40)) / 4);
    }
    if (!has_items) continue;
    request.values[0][i] = 0;
    for (uint64_t items = random.Between(0, 3); items > 0; --items) {
      request.item_sequences.push_back(i);
      request.item_values.push_back(static_cast<double>(random.Between(1, 20)) / 4);
      request.values[0][i] += request.item_values.back();
    }
  }
  const bool items_exist = !request.item_sequences.empty();
  for (size_t load = 0; load < loads; ++load) {
    if (random.Chance(60)) {
      pass.limits.push_back({.load = SmallRequest::Name(load),
                             .max_per_microbatch = static_cast<double>(random.Between(8, 25))});
    }
    if (random.Chance(70)) {
      const bool dealt = load == 0 && items_exist && random.Chance(50);
      options.cost_model.loads.push_back(
          {.load = SmallRequest::Name(load),
           .per_unit = 0.5 * static_cast<double>(random.Between(1, 4)),
           .separate = random.Chance(60),
           .dealt = dealt});
    }
  }
  if (random.Chance(15)) {
    for (size_t i = 0; i < count; ++i) {
      request.ranks.push_back(
          static_cast<uint32_t>(random.Between(0, options.topology.data_parallel - 1)));
    }
  } else if (random.Chance(15)) {
    pass.sequence_counts = EqualCounts::kExact;
  }
  return request;
}

// The step time of these bins, where slot s of rank r is bin r * slots + s; none if they break a
// limit.
class Judge {
 public:
  explicit Judge(const SmallRequest& request)
      : request_(request), ranks_(request.options.topology.data_parallel) {}

  std::optional<double> TimeOf(const std::vector<uint32_t>& bin_of, uint32_t slots) const {
    const uint32_t bins = ranks_ * slots;
    const PassOptions& pass = request_.options.passes[0];
    std::vector<double> tokens(bins, 0);
    std::vector<double> rest(bins, request_.options.cost_model.per_microbatch);
    std::vector<uint32_t> counts(bins, 0);
    for (size_t i = 0; i < bin_of.size(); ++i) {
      const double length = request_.lengths[i];
      tokens[bin_of[i]] += length;
      rest[bin_of[i]] += length + request_.options.cost_model.per_token_squared * length * length;
      ++counts[bin_of[i]];
    }
    for (uint32_t bin = 0; bin < bins; ++bin) {
      if (tokens[bin] > pass.max_tokens_per_microbatch) return std::nullopt;
      if (counts[bin] == 0 && !request_.options.allow_empty_microbatches) return std::nullopt;
    }
    if (!KeepsCounts(counts, slots) || !KeepsRanks(bin_of, slots)) return std::nullopt;
    double phases = 0;
    for (size_t load = 0; load < request_.values.size(); ++load) {
      const LoadCost* const cost = CostOf(load);
      const bool dealt = cost != nullptr && cost->dealt;
      std::vector<double> sums(bins, 0);
      if (dealt) {
        Deal(bin_of, slots, sums);
      } else {
        for (size_t i = 0; i < bin_of.size(); ++i) sums[bin_of[i]] += request_.values[load][i];
      }
      for (const LoadLimit& limit : pass.limits) {
        if (limit.load == SmallRequest::Name(load) &&
            std::ranges::max(sums) > limit.max_per_microbatch * (1 + 1e-9)) {
          return std::nullopt;
        }
      }
      if (cost == nullptr) continue;
      const bool lockstep = request_.options.synchronization == Synchronization::kLockstep;
      if (dealt || (cost->separate && lockstep)) {
        phases += cost->per_unit * SumOfMaxima(sums, slots);
      } else {
        for (uint32_t bin = 0; bin < bins; ++bin) rest[bin] += cost->per_unit * sums[bin];
      }
    }
    return phases + TimeOfRows(rest, slots);
  }

 private:
  const LoadCost* CostOf(size_t load) const {
    for (const LoadCost& cost : request_.options.cost_model.loads) {
      if (cost.load == SmallRequest::Name(load)) return &cost;
    }
    return nullptr;
  }

  bool KeepsCounts(const std::vector<uint32_t>& counts, uint32_t slots) const {
    if (!request_.options.passes[0].keeps_counts()) return true;
    const auto of_rank = [&](uint32_t rank) {
      return std::accumulate(counts.begin() + rank * slots, counts.begin() + (rank + 1) * slots,
                             0u);
    };
    for (uint32_t rank = 1; rank < ranks_; ++rank) {
      if (of_rank(rank) != of_rank(0)) return false;
    }
    return true;
  }

  bool KeepsRanks(const std::vector<uint32_t>& bin_of, uint32_t slots) const {
    for (size_t i = 0; i < request_.ranks.size(); ++i) {
      if (bin_of[i] / slots != request_.ranks[i]) return false;
    }
    return true;
  }

  void Deal(const std::vector<uint32_t>& bin_of, uint32_t slots, std::vector<double>& sums) const {
    std::vector<size_t> order(request_.item_values.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::ranges::stable_sort(order, std::greater(),
                             [&](size_t i) { return request_.item_values[i]; });
    for (const size_t item : order) {
      const uint32_t slot = bin_of[request_.item_sequences[item]] % slots;
      uint32_t least = slot;
      for (uint32_t rank = 1; rank < ranks_; ++rank) {
        if (sums[rank * slots + slot] < sums[least]) least = rank * slots + slot;
      }
      sums[least] += request_.item_values[item];
    }
  }

  double SumOfMaxima(const std::vector<double>& costs, uint32_t slots) const {
    double time = 0;
    for (uint32_t slot = 0; slot < slots; ++slot) {
      double most = 0;
      for (uint32_t rank = 0; rank < ranks_; ++rank) {
        most = std::max(most, costs[rank * slots + slot]);
      }
      time += most;
    }
    return time;
  }

  double TimeOfRows(const std::vector<double>& costs, uint32_t slots) const {
    if (request_.options.synchronization == Synchronization::kLockstep) {
      return SumOfMaxima(costs, slots);
    }
    double time = 0;
    for (uint32_t rank = 0; rank < ranks_; ++rank) {
      time = std::max(time, std::accumulate(costs.begin() + rank * slots,
                                            costs.begin() + (rank + 1) * slots, 0.0));
    }
    return time;
  }

  const SmallRequest& request_;
  const uint32_t ranks_;
};

// The shortest step of all assignments; none if none is allowed.
std::optional<double> BestOf(const SmallRequest& request) {
  const Judge judge(request);
  const auto count = static_cast<uint32_t>(request.lengths.size());
  const uint32_t ranks = request.options.topology.data_parallel;
  const uint32_t most =
      request.options.allow_empty_microbatches ? count : std::max(1u, count / ranks);
  return testing::ShortestStep(count, ranks, most,
                               [&](const std::vector<uint32_t>& bin_of, uint32_t slots) {
                                 return judge.TimeOf(bin_of, slots);
                               });
}

TEST(LoadsOptimumTest, IsNeverBelowTheBoundsAndPlannedForWhereThereIsOne) {
  uint64_t planned = 0;
  uint64_t missed = 0;
  uint64_t not_best = 0;
  double worst = 1;
  double logarithms = 0;
  for (const uint64_t seed : testing::Seeds(2000)) {
    const SmallRequest request = RequestOf(seed);
    const std::optional<double> best = BestOf(request);
    const auto plan = testing::MakeCheckedPlan(request.manifest(), request.options);
    if (!plan.ok()) {
      ASSERT_TRUE(testing::IsClearRefusal(plan.status())) << plan.status();
      missed += best ? 1 : 0;
      continue;
    }
    ++planned;
    ASSERT_TRUE(best) << request.Describe();
    const PlanMetrics& metrics = plan->passes[0].metrics;
    EXPECT_GE(metrics.predicted_step_time, *best * (1 - 1e-9));
    EXPECT_LE(metrics.lower_bound_step_time, *best * (1 + 1e-9));
    EXPECT_LE(metrics.ideal_step_time, *best * (1 + 1e-9));
    if (HasFailure()) FAIL() << "seed " << seed << "\n" << request.Describe();
    const double ratio = metrics.predicted_step_time / *best;
    worst = std::max(worst, ratio);
    not_best += ratio > 1 + 1e-9 ? 1 : 0;
    logarithms += std::log(ratio);
  }
  std::cout << planned << " plans, " << std::exp(logarithms / static_cast<double>(planned))
            << " times the optimum, at worst " << worst << ", " << not_best << " above it; "
            << missed << " refused that have a plan\n";
  EXPECT_LE(missed, planned / 100);
  EXPECT_LE(logarithms / static_cast<double>(planned), 0.01);
  EXPECT_GT(planned, testing::Cases(2000) / 3);
}

// One slot would have too many large items for four ranks. With two slots, some micro-batches stay
// empty.
TEST(LoadsOptimumTest, DealtItemsAboveTheLimitOfOneSlotTakeTwo) {
  const std::vector<uint32_t> lengths = {283, 342, 238, 291};
  const std::vector<uint32_t> sequences = {0, 0, 1, 1, 2, 3, 3};
  const std::vector<double> values = {412, 491, 87, 491, 497, 498, 161};
  Manifest manifest = {.lengths = lengths};
  manifest.loads = {{.name = "patches"}};
  manifest.items = {{.load = "patches", .sequences = sequences, .values = values}};
  PlanOptions options = testing::PackedOptions(2000, Packer::kBalanced, 4, Sharding::kBalanced);
  options.allow_empty_microbatches = true;
  options.cost_model.loads = {{.load = "patches", .per_unit = 0.5, .dealt = true}};
  options.passes[0].limits = {{.load = "patches", .max_per_microbatch = 700}};
  for (const Effort effort : {Effort::kFast, Effort::kDefault}) {
    options.effort = effort;
    const auto plan = testing::MakeCheckedPlan(manifest, options);
    ASSERT_TRUE(plan.ok()) << plan.status();
    EXPECT_EQ(plan->passes[0].microbatches_per_rank[0], 2u);
  }
}

}  // namespace
}  // namespace batchplan
