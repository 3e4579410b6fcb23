#include "server/planner/fewest_bins/fewest_bins.h"

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <initializer_list>
#include <optional>
#include <random>
#include <utility>
#include <vector>

#include "server/planner/fewest_bins/bin_completion.h"
#include "server/planner/fewest_bins/column_generation.h"
#include "server/planner/fewest_bins/kinds.h"
#include "server/planner/fewest_bins/minimum_bin_slack.h"
#include "server/planner/fewest_bins/repack.h"
#include "server/planner/packing/dual_feasible.h"
#include "server/planner/packing/length_counts.h"
#include "server/planner/packing/lower_bounds.h"
#include "server/planner/packing/packer.h"

namespace batchplan {
namespace {

// What the searches may cost, in steps of each.
struct Budget {
  // Minimum bin slack: a bin, and all.
  uint64_t slack_steps_a_bin;
  uint64_t slack_steps;
  uint64_t completion_steps;
  // Column generation, of at most so many kinds, or else of so many items at a time.
  uint64_t column_steps;
  size_t max_kinds;
  uint64_t repack_steps;
  size_t repacked_items;
};

constexpr Budget kBriefBudget = {.slack_steps_a_bin = 2000,
                                 .slack_steps = 200'000,
                                 .completion_steps = 100'000,
                                 .column_steps = 8'000'000,
                                 .max_kinds = 128,
                                 .repack_steps = 8'000'000,
                                 .repacked_items = 90};
constexpr Budget kDefaultBudget = {.slack_steps_a_bin = 2000,
                                   .slack_steps = 200'000,
                                   .completion_steps = 100'000,
                                   .column_steps = 250'000'000,
                                   .max_kinds = 256,
                                   .repack_steps = 8'000'000,
                                   .repacked_items = 90};
constexpr Budget kThoroughBudget = {.slack_steps_a_bin = 20'000,
                                    .slack_steps = 20'000'000,
                                    .completion_steps = 2'000'000,
                                    .column_steps = 1'000'000'000,
                                    .max_kinds = 512,
                                    .repack_steps = 500'000'000,
                                    .repacked_items = 150};

// What a step takes of an allowance, and for each item a look at all of them.
constexpr uint64_t kUnitsASlackStep = 15;
constexpr uint64_t kUnitsACompletionStep = 12;
constexpr uint64_t kUnitsAColumnStep = 1;
constexpr uint64_t kUnitsToPrepare = 100;

// Of all steps of minimum bin slack, whatever the budget.
constexpr uint64_t kLeastSlackStepsPerItem = 16;
// A bin, of a search that is made beside those of the budget.
constexpr uint64_t kFewSlackSteps = 16;
// Beyond, bin completion rarely comes to an end.
constexpr size_t kMostForCompletion = 256;

bool KeepsSequences(const Bins& bins, const PackItems& items, const BinLimits& limits) {
  for (size_t bin = 0; bin < bins.size(); ++bin) {
    uint64_t sequences = 0;
    for (uint32_t item : bins[bin]) sequences += items.count(item);
    if (sequences > limits.max_sequences) return false;
  }
  return true;
}

// The best packing so far, and what more is wanted of it.
class Incumbent {
 public:
  Incumbent(const PackItems& items, const BinLimits& limits, uint64_t enough,
            const Allowance& allowance)
      : items_(items), limits_(limits), enough_(enough), allowance_(allowance) {}

  void Offer(Bins bins) {
    if (!found_ || bins.size() < best_.size()) best_ = std::move(bins);
    found_ = true;
  }
  void OfferKinds(const std::optional<Bins>& bins_of_kinds) {
    if (!bins_of_kinds || bins_of_kinds->size() >= best_.size()) return;
    Bins bins = ItemsInBins(*bins_of_kinds, items_.lengths);
    if (!KeepsSequences(bins, items_, limits_)) return;
    Offer(std::move(bins));
    bins_of_kinds_ = bins_of_kinds;
  }
  void RaiseBound(uint64_t bound) { bound_ = std::max(bound_, bound); }

  // The best as bins of kinds, which it is already if a search found it.
  Bins BestOfKinds(const Kinds& kinds) const {
    return bins_of_kinds_ ? *bins_of_kinds_ : KindsInBins(best_, items_.lengths, kinds);
  }
  size_t size() const { return best_.size(); }
  uint64_t bound() const { return bound_; }
  // As few bins as are of use.
  uint64_t target() const { return std::max(enough_, bound_); }
  const Allowance& allowance() const { return allowance_; }
  // Whether no better packing is wanted.
  bool IsOver() const { return size() <= target() || allowance_.stop_requested(); }
  // Whether none is looked for either.
  bool Done() const { return IsOver() || allowance_.spent(); }
  FewestBins Take() && { return {.bins = std::move(best_), .bound = bound_}; }

 private:
  const PackItems& items_;
  const BinLimits& limits_;
  uint64_t enough_;
  const Allowance& allowance_;
  bool found_ = false;
  Bins best_;
  std::optional<Bins> bins_of_kinds_;
  uint64_t bound_ = 0;
};

void Search(const PackItems& items, uint32_t capacity, const Budget& budget, Incumbent& incumbent) {
  const Allowance& allowance = incumbent.allowance();
  allowance.Spend(kUnitsToPrepare * items.size());
  const Kinds kinds = KindsOf(items.lengths, capacity);
  const DualFeasible worth = BestDualFeasible(CountLengths(items.lengths), capacity);
  for (const SlackSearch& search :
       {SlackSearch{.steps_a_bin = budget.slack_steps_a_bin, .spare_small = false},
        SlackSearch{.steps_a_bin = budget.slack_steps_a_bin, .spare_small = true},
        SlackSearch{.steps_a_bin = kFewSlackSteps, .spare_small = false}}) {
    SearchSteps steps(allowance,
                      std::max(budget.slack_steps, kLeastSlackStepsPerItem * items.size()),
                      kUnitsASlackStep);
    incumbent.OfferKinds(
        MinimumBinSlack(kinds, worth, incumbent.size() - 1, search, steps.left, allowance.stop()));
    if (incumbent.Done()) return;
  }
  if (items.size() <= kMostForCompletion) {
    SearchSteps steps(allowance, budget.completion_steps, kUnitsACompletionStep);
    const Completion completion =
        CompleteBins(kinds, kinds.demand, incumbent.target(), steps.left, allowance.stop());
    incumbent.OfferKinds(completion.bins);
    if (completion.exhausted) incumbent.RaiseBound(incumbent.target() + 1);
    if (incumbent.Done()) return;
  }
  if (kinds.size() <= budget.max_kinds) {
    SearchSteps steps(allowance, budget.column_steps, kUnitsAColumnStep);
    const GeneratedBins generated =
        GenerateColumns(kinds, incumbent.target(), incumbent.size(), steps.left, allowance.stop());
    incumbent.OfferKinds(generated.bins);
    incumbent.RaiseBound(generated.bound);
    if (incumbent.Done()) return;
  }
  if (items.size() > budget.repacked_items) {
    SearchSteps steps(allowance, budget.repack_steps, kUnitsAColumnStep);
    std::mt19937_64 random(0);
    incumbent.OfferKinds(RepackSome(kinds, worth, incumbent.BestOfKinds(kinds), incumbent.target(),
                                    budget.repacked_items, random, steps.left, allowance.stop()));
  }
}

// Greedy packings, and then one search after the other for what is still wanted.
FewestBins PackWithin(const PackItems& items, const BinLimits& limits, uint64_t enough,
                      std::initializer_list<Budget> budgets, const Allowance& allowance) {
  Incumbent incumbent(items, limits, enough, allowance);
  incumbent.Offer(Pack(Packer::kBestFitDecreasing, items, limits, 0));
  // Mostly the tokens alone show that there can be no fewer.
  incumbent.RaiseBound(VolumeBound(items.lengths, limits.capacity));
  if (incumbent.size() > incumbent.bound()) {
    incumbent.RaiseBound(LowerBoundBins(items, limits, incumbent.size()));
  }
  if (incumbent.IsOver()) return std::move(incumbent).Take();
  for (const Packer packer : {Packer::kFirstFitDecreasing, Packer::kModifiedFirstFitDecreasing}) {
    incumbent.Offer(Pack(packer, items, limits, 0));
    if (incumbent.IsOver()) return std::move(incumbent).Take();
  }
  for (const Budget& budget : budgets) {
    if (incumbent.Done()) break;
    Search(items, limits.capacity, budget, incumbent);
  }
  return std::move(incumbent).Take();
}

}  // namespace

FewestBins PackFewest(const PackItems& items, const BinLimits& limits, uint64_t enough,
                      Effort effort, const Allowance& allowance) {
  switch (effort) {
    case Effort::kFast:
      return PackWithin(items, limits, enough, {}, allowance);
    case Effort::kDefault:
      return PackWithin(items, limits, enough, {kDefaultBudget}, allowance);
    case Effort::kThorough:
      // What kDefault does comes first, so that it is never better.
      return PackWithin(items, limits, enough, {kDefaultBudget, kThoroughBudget}, allowance);
  }
  std::abort();  // Not reached.
}

FewestBins PackFewBriefly(const PackItems& items, const BinLimits& limits, uint64_t enough,
                          const Allowance& allowance) {
  return PackWithin(items, limits, enough, {kBriefBudget}, allowance);
}

}  // namespace batchplan
