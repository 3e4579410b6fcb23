#include "server/planner/fewest_bins/fewest_bins.h"

#include <algorithm>
#include <cstddef>
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

// What a search may cost. A step is about a nanosecond's work, or some where memory is far.
struct Budget {
  uint64_t slack_steps_a_bin;
  uint64_t completion_steps;
  size_t max_completed_items;
  uint64_t column_steps;
  size_t max_kinds;
  uint64_t slack_steps;
  size_t repacked_items;
};

constexpr Budget kDefaultBudget = {.slack_steps_a_bin = 2000,
                                   .completion_steps = 100'000,
                                   .max_completed_items = 256,
                                   .column_steps = 12'000'000,
                                   .max_kinds = 128,
                                   .slack_steps = 2'000'000,
                                   .repacked_items = 90};
constexpr Budget kThoroughBudget = {.slack_steps_a_bin = 20'000,
                                    .completion_steps = 2'000'000,
                                    .max_completed_items = 256,
                                    .column_steps = 1'500'000'000,
                                    .max_kinds = 512,
                                    .slack_steps = 100'000'000,
                                    .repacked_items = 240};

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
  Incumbent(const PackItems& items, const BinLimits& limits, uint64_t enough)
      : items_(items), limits_(limits), enough_(enough) {}

  void Offer(Bins bins) {
    if (!found_ || bins.size() < best_.size()) best_ = std::move(bins);
    found_ = true;
  }
  void OfferKinds(const std::optional<Bins>& bins_of_kinds) {
    if (!bins_of_kinds || bins_of_kinds->size() >= best_.size()) return;
    kinds_ = *bins_of_kinds;
    Bins bins = ItemsInBins(*bins_of_kinds, items_.lengths);
    if (KeepsSequences(bins, items_, limits_)) Offer(std::move(bins));
  }
  void RaiseBound(uint64_t bound) { bound_ = std::max(bound_, bound); }

  const Bins& kinds() const {return kinds_;} Bins kinds_;
  size_t size() const { return best_.size(); }
  // As few bins as are of use.
  uint64_t target() const { return std::max(enough_, bound_); }
  bool Done() const { return size() <= target(); }
  FewestBins Take() && { return {.bins = std::move(best_), .bound = bound_}; }

 private:
  const PackItems& items_;
  const BinLimits& limits_;
  uint64_t enough_;
  bool found_ = false;
  Bins best_;
  uint64_t bound_ = 0;
};

void Search(const Kinds& kinds, size_t items, const Budget& budget, Incumbent& incumbent) {
  const DualFeasible length(kinds.capacity, kinds.capacity);
  std::vector<LengthCount> counted;
  for (size_t kind = 0; kind < kinds.size(); ++kind) {
    counted.push_back({kinds.lengths[kind], kinds.demand[kind]});
  }
  const DualFeasible worth = BestDualFeasible(counted, kinds.capacity);
  for (const bool spare_small : {false, true}) {
    uint64_t steps = budget.slack_steps;
    incumbent.OfferKinds(MinimumBinSlack(
        kinds, worth, incumbent.size() - 1,
        {.steps_a_bin = budget.slack_steps_a_bin, .spare_small = spare_small}, steps));
    if (incumbent.Done()) return;
  }
  if (items <= budget.max_completed_items) {
    uint64_t steps = budget.completion_steps;
    const Completion completion = CompleteBins(kinds, kinds.demand, incumbent.target(), steps);
    incumbent.OfferKinds(completion.bins);
    if (completion.exhausted) incumbent.RaiseBound(incumbent.target() + 1);
    if (incumbent.Done()) return;
  }
  uint64_t steps = budget.column_steps;
  if (kinds.size() <= budget.max_kinds) {
    const GeneratedBins generated =
        GenerateColumns(kinds, incumbent.target(), incumbent.size(), steps);
    incumbent.OfferKinds(generated.bins);
    incumbent.RaiseBound(generated.bound);
    if (incumbent.Done()) return;
  }
  if (items > budget.repacked_items && items < 100000 && incumbent.kinds().size()) {
    std::mt19937_64 random(1);
    incumbent.OfferKinds(RepackSome(kinds, worth, incumbent.kinds(), incumbent.target(), budget.repacked_items, random, steps));
  }
}

}  // namespace

FewestBins PackFewest(const PackItems& items, const BinLimits& limits, uint64_t enough,
                      Effort effort) {
  Incumbent incumbent(items, limits, enough);
  incumbent.RaiseBound(LowerBoundBins(items, limits));
  for (const Packer packer : {Packer::kBestFitDecreasing, Packer::kFirstFitDecreasing,
                              Packer::kModifiedFirstFitDecreasing}) {
    incumbent.Offer(Pack(packer, items, limits, 0));
    if (incumbent.Done()) return std::move(incumbent).Take();
  }
  if (effort != Effort::kFast) {
    Search(KindsOf(items.lengths, limits.capacity), items.size(),
           effort == Effort::kDefault ? kDefaultBudget : kThoroughBudget, incumbent);
  }
  return std::move(incumbent).Take();
}

}  // namespace batchplan
