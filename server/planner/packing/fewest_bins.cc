#include "server/planner/packing/fewest_bins.h"

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <initializer_list>
#include <numeric>
#include <optional>
#include <random>
#include <utility>
#include <vector>

#include "server/planner/packing/bin_search.h"
#include "server/planner/packing/column_generation.h"
#include "server/planner/packing/kinds.h"
#include "server/planner/packing/limited_packers.h"
#include "server/planner/packing/limited_room.h"
#include "server/planner/packing/lower_bounds.h"
#include "server/planner/packing/packer.h"

namespace batchplan {
namespace {

constexpr size_t kMaxFailures = 8;
// Steps to choose the bins of a round.
constexpr uint64_t kStepsPerBin = 100;

// The worth of a bin's items.
uint64_t WorthOf(std::span<const uint32_t> bin, const Kinds& kinds, const DualFeasible& worth) {
  return std::accumulate(bin.begin(), bin.end(), uint64_t{0}, [&](uint64_t sum, uint32_t kind) {
    return sum + worth(kinds.lengths[kind]);
  });
}

// Bins in the order in which a round repacks them: those worth least first, and if `shuffled` every
// other one drawn at random.
std::vector<uint32_t> Worst(const Bins& bins, const Kinds& kinds, const DualFeasible& worth,
                            bool shuffled, std::mt19937_64& random) {
  std::vector<std::pair<uint64_t, uint32_t>> keys;
  for (uint32_t bin = 0; bin < bins.size(); ++bin) {
    keys.emplace_back(WorthOf(bins[bin], kinds, worth), bin);
  }
  std::sort(keys.begin(), keys.end());
  if (shuffled) {
    for (size_t i = 1; i < keys.size(); i += 2) {
      std::swap(keys[i], keys[i + random() % (keys.size() - i)]);
    }
  }
  std::vector<uint32_t> order;
  order.reserve(keys.size());
  for (const auto& [key, bin] : keys) order.push_back(bin);
  return order;
}

// An excerpt of an instance: the kinds in some bins, and the number of each among all kinds.
struct Excerpt {
  Kinds kinds;
  std::vector<uint32_t> original;
};

Excerpt ExcerptOf(const Kinds& kinds, std::vector<uint32_t> items) {
  std::sort(items.begin(), items.end());
  Excerpt excerpt{.kinds = {.lengths = {}, .demand = {}, .capacity = kinds.capacity},
                  .original = {}};
  for (uint32_t kind : items) {
    if (excerpt.original.empty() || excerpt.original.back() != kind) {
      excerpt.original.push_back(kind);
      excerpt.kinds.lengths.push_back(kinds.lengths[kind]);
      excerpt.kinds.demand.push_back(0);
    }
    ++excerpt.kinds.demand.back();
  }
  return excerpt;
}

// Fewer bins for a packing that is too large to improve as a whole. In each round column generation
// repacks some bins, of at most `items` items. Ends once there are at most `enough` bins, after too
// many vain rounds in a row, when all `steps` are used up, or once `stop` is requested. The first
// round repacks the bins that lack most by `worth` (see MinimumBinSlack); later half of them are
// drawn at random: large neighbourhood search, P. Shaw, "Using constraint programming and local
// search methods to solve vehicle routing problems" (1998).
Bins RepackSome(const Kinds& kinds, const DualFeasible& worth, Bins bins, size_t enough,
                size_t items, std::mt19937_64& random, uint64_t& steps,
                const std::stop_token& stop) {
  for (size_t round = 0, failures = 0;
       bins.size() > enough && failures < kMaxFailures && steps > 0 && !stop.stop_requested();
       ++round) {
    steps -= std::min<uint64_t>(steps, kStepsPerBin * bins.size());
    std::vector<uint8_t> is_taken(bins.size(), 0);
    std::vector<uint32_t> taken;
    size_t taken_bins = 0;
    for (uint32_t bin : Worst(bins, kinds, worth, round > 0, random)) {
      if (taken.size() + bins[bin].size() > items) break;
      taken.insert(taken.end(), bins[bin].begin(), bins[bin].end());
      is_taken[bin] = 1;
      ++taken_bins;
    }
    const Excerpt excerpt = ExcerptOf(kinds, std::move(taken));
    const size_t kept = bins.size() - taken_bins;
    const size_t wanted = enough - std::min(kept, enough);
    const std::optional<Bins> better =
        GenerateColumns(excerpt.kinds, wanted, taken_bins, steps, stop).bins;
    if (!better) {
      ++failures;
      continue;
    }
    failures = 0;
    Bins next;
    for (size_t bin = 0; bin < bins.size(); ++bin) {
      if (!is_taken[bin]) next.Add(bins[bin]);
    }
    std::vector<uint32_t> original;
    for (size_t bin = 0; bin < better->size(); ++bin) {
      original.clear();
      for (uint32_t kind : (*better)[bin]) original.push_back(excerpt.original[kind]);
      next.Add(original);
    }
    bins = std::move(next);
  }
  return bins;
}

// The most steps of the searches, each counted in steps of its own.
struct StepLimits {
  // Minimum bin slack: for one bin, and for all bins.
  uint64_t slack_steps_a_bin;
  uint64_t slack_steps;
  uint64_t completion_steps;
  // Column generation: of all items if there are at most max_kinds kinds; and of some items at a
  // time.
  uint64_t column_steps;
  size_t max_kinds;
  uint64_t repack_steps;
  size_t repacked_items;
};

constexpr StepLimits kBrief = {.slack_steps_a_bin = 2000,
                               .slack_steps = 200'000,
                               .completion_steps = 100'000,
                               .column_steps = 8'000'000,
                               .max_kinds = 128,
                               .repack_steps = 8'000'000,
                               .repacked_items = 90};
constexpr StepLimits kDefault = {.slack_steps_a_bin = 2000,
                                 .slack_steps = 200'000,
                                 .completion_steps = 100'000,
                                 .column_steps = 250'000'000,
                                 .max_kinds = 256,
                                 .repack_steps = 8'000'000,
                                 .repacked_items = 90};
constexpr StepLimits kThorough = {.slack_steps_a_bin = 20'000,
                                  .slack_steps = 20'000'000,
                                  .completion_steps = 2'000'000,
                                  .column_steps = 1'000'000'000,
                                  .max_kinds = 512,
                                  .repack_steps = 500'000'000,
                                  .repacked_items = 150};

// Ticks of each step; and of each item before the searches.
constexpr uint64_t kTicksASlackStep = 15;
constexpr uint64_t kTicksACompletionStep = 12;
constexpr uint64_t kTicksAColumnStep = 1;
constexpr uint64_t kTicksToPrepare = 100;

// Steps that minimum bin slack may always use for each item.
constexpr uint64_t kLeastSlackStepsPerItem = 16;
// Steps for one bin, in one more search by minimum bin slack that is as brief as can be.
constexpr uint64_t kFewSlackSteps = 16;
// With more items, bin completion rarely ends.
constexpr size_t kMostForCompletion = 256;
// More items with limited loads are packed in only one other order, by first fit.
constexpr size_t kMostForOrders = 16384;

bool KeepsSequences(const Bins& bins, const PackItems& items, const BinLimits& limits) {
  for (size_t bin = 0; bin < bins.size(); ++bin) {
    uint64_t sequences = 0;
    for (uint32_t item : bins[bin]) sequences += items.count(item);
    if (sequences > limits.max_sequences) return false;
  }
  return true;
}

bool KeepsLoads(const Bins& bins, const PackItems& items, const BinLimits& limits) {
  for (size_t bin = 0; bin < bins.size(); ++bin) {
    LimitedRoom room(items, limits);
    for (uint32_t item : bins[bin]) {
      if (!room.Holds(items, item)) return false;
      room.Take(items, item);
    }
  }
  return true;
}

// The best packing so far, and whether a better one is wanted.
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
    if (!items_.limited.empty() && !KeepsLoads(bins, items_, limits_)) {
      loads_bind_ = true;
      return;
    }
    Offer(std::move(bins));
    bins_of_kinds_ = bins_of_kinds;
  }
  void RaiseBound(uint64_t bound) { bound_ = std::max(bound_, bound); }

  // The best packing as bins of kinds, which it already is if a search found it.
  Bins BestOfKinds(const Kinds& kinds) const {
    return bins_of_kinds_ ? *bins_of_kinds_ : KindsInBins(best_, items_.lengths, kinds);
  }
  size_t size() const { return best_.size(); }
  uint64_t bound() const { return bound_; }
  // Fewer bins are useless or impossible.
  uint64_t target() const { return std::max(enough_, bound_); }
  const Allowance& allowance() const { return allowance_; }
  // Whether no better packing is wanted.
  bool IsOver() const { return size() <= target() || allowance_.stop_requested(); }
  // Whether searches by length alone are over: also once a packing of theirs has broken a limit on
  // loads, since others will.
  bool Done() const { return IsOver() || allowance_.spent() || loads_bind_; }
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
  bool loads_bind_ = false;
};

// BinRoom or LimitedRoom, for SearchBins.
template <typename Room>
class ItemRoom {
 public:
  ItemRoom(const PackItems& items, const Room& empty) : items_(&items), left_(empty) {}
  bool Holds(uint32_t item) const { return left_.Holds(*items_, item); }
  void Take(uint32_t item) { left_.Take(*items_, item); }
  friend bool operator==(const ItemRoom&, const ItemRoom&) = default;

 private:
  const PackItems* items_;
  Room left_;
};

// Packs items with limited loads in other orders than by length.
void PackInOtherOrders(const PackItems& items, const BinLimits& limits, Incumbent& incumbent) {
  for (const std::vector<uint32_t>& order : LimitedOrders(items, limits)) {
    incumbent.Offer(PackFirstFit(order, items, limits));
    if (incumbent.IsOver() || items.size() > kMostForOrders) return;
    incumbent.Offer(PackBestFit(order, items, limits));
    if (incumbent.IsOver()) return;
  }
}

// Searches for ever fewer bins for a few items with limited loads, until it is certain that there
// are no fewer.
void SearchLimited(const PackItems& items, const BinLimits& limits, Incumbent& incumbent) {
  if (items.size() > kMaxSearchedItems) return;
  const std::vector<uint32_t> order = ByLargestPart(items, limits);
  SearchSteps search(incumbent.allowance(), kMaxSearchSteps, kTicksASearchStep);
  while (!incumbent.IsOver() && search.left > 0) {
    const size_t bins = incumbent.size() - 1;
    std::optional<Bins> found =
        SearchBins(order, bins, ItemRoom(items, LimitedRoom(items, limits)), search.left);
    if (found) {
      incumbent.Offer(*std::move(found));
    } else if (search.left > 0) {
      incumbent.RaiseBound(bins + 1);
    }
  }
}

void SearchFewer(const PackItems& items, uint32_t capacity, const StepLimits& most,
                 Incumbent& incumbent) {
  const Allowance& allowance = incumbent.allowance();
  allowance.Spend(kTicksToPrepare * items.size());
  const Kinds kinds = KindsOf(items.lengths, capacity);
  const DualFeasible worth = BestDualFeasible(CountLengths(items.lengths), capacity);
  for (const SlackSearch& search :
       {SlackSearch{.steps_a_bin = most.slack_steps_a_bin, .spare_small = false},
        SlackSearch{.steps_a_bin = most.slack_steps_a_bin, .spare_small = true},
        SlackSearch{.steps_a_bin = kFewSlackSteps, .spare_small = false}}) {
    SearchSteps steps(allowance, std::max(most.slack_steps, kLeastSlackStepsPerItem * items.size()),
                      kTicksASlackStep);
    incumbent.OfferKinds(
        MinimumBinSlack(kinds, worth, incumbent.size() - 1, search, steps.left, allowance.stop()));
    if (incumbent.Done()) return;
  }
  if (items.size() <= kMostForCompletion) {
    SearchSteps steps(allowance, most.completion_steps, kTicksACompletionStep);
    const Completion completion =
        CompleteBins(kinds, kinds.demand, incumbent.target(), steps.left, allowance.stop());
    incumbent.OfferKinds(completion.bins);
    if (completion.exhausted) incumbent.RaiseBound(incumbent.target() + 1);
    if (incumbent.Done()) return;
  }
  if (kinds.size() <= most.max_kinds) {
    SearchSteps steps(allowance, most.column_steps, kTicksAColumnStep);
    const GeneratedBins generated =
        GenerateColumns(kinds, incumbent.target(), incumbent.size(), steps.left, allowance.stop());
    incumbent.OfferKinds(generated.bins);
    incumbent.RaiseBound(generated.bound);
    if (incumbent.Done()) return;
  }
  if (items.size() > most.repacked_items) {
    SearchSteps steps(allowance, most.repack_steps, kTicksAColumnStep);
    std::mt19937_64 random(0);
    incumbent.OfferKinds(RepackSome(kinds, worth, incumbent.BestOfKinds(kinds), incumbent.target(),
                                    most.repacked_items, random, steps.left, allowance.stop()));
  }
}

// Greedy packings, and then one search after the other as long as a better packing is wanted.
FewestBins PackWithin(const PackItems& items, const BinLimits& limits, uint64_t enough,
                      std::initializer_list<StepLimits> efforts, const Allowance& allowance) {
  Incumbent incumbent(items, limits, enough, allowance);
  incumbent.Offer(Pack(Packer::kBestFitDecreasing, items, limits, 0));
  // Mostly the tokens alone prove that there can be no fewer.
  incumbent.RaiseBound(VolumeBound(items.lengths, limits.capacity));
  if (incumbent.size() > incumbent.bound()) {
    incumbent.RaiseBound(LowerBoundBins(items, limits, incumbent.size()));
  }
  if (incumbent.IsOver()) return std::move(incumbent).Take();
  for (const Packer packer : {Packer::kFirstFitDecreasing, Packer::kModifiedFirstFitDecreasing}) {
    incumbent.Offer(Pack(packer, items, limits, 0));
    if (incumbent.IsOver()) return std::move(incumbent).Take();
  }
  if (!items.limited.empty()) PackInOtherOrders(items, limits, incumbent);
  for (const StepLimits& most : efforts) {
    if (incumbent.Done()) break;
    SearchFewer(items, limits.capacity, most, incumbent);
  }
  if (!items.limited.empty() && efforts.size() > 0) SearchLimited(items, limits, incumbent);
  return std::move(incumbent).Take();
}

}  // namespace

FewestBins PackFewest(const PackItems& items, const BinLimits& limits, uint64_t enough,
                      Effort effort, const Allowance& allowance) {
  switch (effort) {
    case Effort::kFast:
      return PackWithin(items, limits, enough, {}, allowance);
    case Effort::kDefault:
      return PackWithin(items, limits, enough, {kDefault}, allowance);
    case Effort::kThorough:
      // What kDefault does comes first, so that it is never better.
      return PackWithin(items, limits, enough, {kDefault, kThorough}, allowance);
  }
  std::abort();  // Not reached.
}

FewestBins PackFewBriefly(const PackItems& items, const BinLimits& limits, uint64_t enough,
                          const Allowance& allowance) {
  return PackWithin(items, limits, enough, {kBrief}, allowance);
}

std::optional<Bins> PackInto(const PackItems& items, const BinLimits& limits, size_t bins,
                             Effort effort, const Allowance& allowance) {
  const bool is_fast = effort == Effort::kFast;
  FewestBins fewest = is_fast ? PackFewest(items, limits, bins, effort, allowance)
                              : PackFewBriefly(items, limits, bins, allowance);
  if (fewest.bins.size() <= bins) return std::move(fewest.bins);
  if (is_fast || fewest.bound > bins || allowance.stop_requested()) return std::nullopt;
  // With limited loads that search has been made.
  if (items.size() > kMaxSearchedItems || !items.limited.empty()) return std::nullopt;
  SearchSteps search(allowance, kMaxSearchSteps, kTicksASearchStep);
  return SearchBins(DecreasingOrder(items.lengths), bins, ItemRoom(items, BinRoom(limits)),
                    search.left);
}

}  // namespace batchplan
