#include "server/planner/balance/slot_waste.h"

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "server/planner/packing/lower_bounds.h"

namespace batchplan {
namespace {

constexpr uint32_t kSteps = 2048;

}  // namespace

Companions::Companions(std::span<const ItemClass> by_length, uint32_t capacity, uint64_t ceiling)
    : by_length_(by_length),
      ceiling_(ceiling),
      width_(capacity / kSteps + 1),
      inverse_(~uint64_t{0} / width_) {
  token_cost_in_step_.resize(StepOf(capacity) + 1, 0);
  uint64_t highest = 0;
  for (const ItemClass& c : by_length) {
    highest = std::max(highest, CeilDiv(c.cost, c.length));
    token_cost_.push_back(highest);
    token_cost_in_step_[StepOf(c.length)] = highest;
    if (steps_.empty() || StepOf(steps_.back().longest) != StepOf(c.length)) {
      steps_.push_back({.shortest = c.length, .longest = c.length, .costliest = c.cost});
    }
    steps_.back().longest = c.length;
    steps_.back().costliest = std::max(steps_.back().costliest, c.cost);
  }
  for (size_t step = 1; step < token_cost_in_step_.size(); ++step) {
    token_cost_in_step_[step] = std::max(token_cost_in_step_[step], token_cost_in_step_[step - 1]);
  }
}

uint64_t Companions::TokenCost(uint32_t longest) const {
  const size_t fitting =
      std::partition_point(by_length_.begin(), by_length_.end(),
                           [&](const ItemClass& c) { return c.length <= longest; }) -
      by_length_.begin();
  return fitting == 0 ? 0 : token_cost_[fitting - 1];
}

uint64_t Companions::Fill(uint64_t price, uint32_t room, uint32_t longest) const {
  return Times(std::min(price, token_cost_in_step_[StepOf(longest)]), room);
}

uint64_t Companions::Most(uint64_t price, uint32_t room, uint32_t longest) const {
  uint64_t most = Fill(price, room, std::min(longest, room / 2));
  auto step = std::partition_point(steps_.begin(), steps_.end(),
                                   [&](const Step& s) { return s.longest <= room / 2; });
  for (; step != steps_.end() && step->shortest <= longest; ++step) {
    const uint64_t first =
        std::min(step->costliest, Times(price, std::min(step->longest, longest)));
    const uint32_t rest = room - step->shortest;
    most = std::max(most, first + Fill(price, rest, rest));
  }
  return std::min(most, ceiling_);
}

namespace {

constexpr size_t kCoarsePrices = 16;
// How many classes, of the highest values, are looked at closely.
constexpr size_t kCloseLooks = 1024;
// Ticks of LeastWaste: in any case, for each class with all prices, and for each close look at a
// class with some.
constexpr uint64_t kTicksToLook = 3000;
constexpr uint64_t kTicksAClass = 250;
constexpr uint64_t kTicksACloseLook = 400;
// If fewer than one value in kFewOf is wanted, a heap finds them sooner than a sort.
constexpr size_t kFewOf = 8;

// Items that are the longest of their micro-batch.
struct Anchors {
  uint64_t cost;
  uint32_t length;
  uint64_t items;
  uint32_t room;         // tokens beside it
  uint32_t longest;      // that an item beside it can be
  uint64_t token_cost;   // the most that a token beside it costs
  uint64_t beside_most;  // the most that all sequences beside it cost
};

// v of the items of a class.
struct Value {
  uint64_t value;
  uint64_t items;
  size_t anchors;
};

// A total order: which classes get a close look must not depend on the standard library.
bool Higher(const Value& a, const Value& b) {
  return a.value != b.value ? a.value > b.value : a.anchors < b.anchors;
}

std::vector<ItemClass> ByLength(std::span<const ItemClass> classes) {
  const auto rises = [](const ItemClass& a, const ItemClass& b) { return a.length <= b.length; };
  if (std::adjacent_find(classes.begin(), classes.end(), rises) == classes.end()) {
    return {classes.rbegin(), classes.rend()};
  }
  std::vector<ItemClass> sorted(classes.begin(), classes.end());
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const ItemClass& a, const ItemClass& b) { return a.length < b.length; });
  return sorted;
}

uint64_t ItemsOf(std::span<const ItemClass> classes) {
  uint64_t items = 0;
  for (const ItemClass& c : classes) items += c.items;
  return items;
}

uint64_t BinsOf(std::span<const SlotFloor> floors, uint64_t ranks) {
  uint64_t slots = 0;
  for (const SlotFloor& floor : floors) slots += floor.slots;
  return slots * ranks;
}

class WasteBound {
 public:
  WasteBound(std::span<const ItemClass> classes, std::span<const SlotFloor> floors,
             const BinLimits& limits, uint32_t ranks);

  // Prices worth trying, ascending: those of a token of items that can lie beside others.
  const std::vector<uint64_t>& prices() const { return prices_; }

  // W(price), or 0 if that is at most `least`. A close look takes longer and may find more.
  absl::uint128 At(uint64_t price, bool close_look, absl::uint128 least);

 private:
  uint64_t Own(const Anchors& a, uint64_t price) const {
    return a.length <= half_ ? std::min(a.cost, companions_.Times(price, a.length)) : a.cost;
  }
  void LookClosely(uint64_t price);
  // The least value that a micro-batch may have.
  uint64_t LeastValue() const;
  // The waste if all values are the least.
  absl::uint128 MostWaste(uint64_t least_value) const;
  void SortTop(uint64_t least_value);
  absl::uint128 WasteOfSorted() const;

  std::span<const SlotFloor> floors_;
  uint64_t ranks_;
  uint32_t half_;
  // The highest floor: no value needs to be higher.
  uint64_t ceiling_;
  // Whether there are more floors than items.
  bool has_empty_;
  std::vector<ItemClass> by_length_;
  Companions companions_;
  std::vector<Anchors> anchors_;
  std::vector<uint64_t> prices_;
  std::vector<Value> values_;
};

WasteBound::WasteBound(std::span<const ItemClass> classes, std::span<const SlotFloor> floors,
                       const BinLimits& limits, uint32_t ranks)
    : floors_(floors),
      ranks_(ranks),
      half_(limits.capacity / 2),
      ceiling_(floors.front().cost),
      has_empty_(BinsOf(floors, ranks) > ItemsOf(classes)),
      by_length_(ByLength(classes)),
      companions_(by_length_, limits.capacity, ceiling_) {
  // The highest cost of a sequence among items that are no longer.
  std::vector<uint64_t> sequence_cost;
  for (const ItemClass& c : by_length_) {
    const uint64_t cost = CeilDiv(c.cost, c.sequences);
    sequence_cost.push_back(std::max(cost, sequence_cost.empty() ? 0 : sequence_cost.back()));
    if (c.length <= half_) prices_.push_back(CeilDiv(c.cost, c.length));
  }
  std::sort(prices_.begin(), prices_.end());
  prices_.erase(std::unique(prices_.begin(), prices_.end()), prices_.end());
  if (prices_.empty()) prices_.push_back(0);

  anchors_.reserve(by_length_.size());
  for (const ItemClass& c : by_length_) {
    const uint32_t room = limits.capacity - c.length;
    const uint32_t longest = std::min(c.length, room);
    const size_t fitting =
        std::partition_point(by_length_.begin(), by_length_.end(),
                             [&](const ItemClass& other) { return other.length <= longest; }) -
        by_length_.begin();
    const uint64_t sequences = limits.max_sequences - std::min(limits.max_sequences, c.sequences);
    anchors_.push_back(
        {.cost = c.cost,
         .length = c.length,
         .items = c.items,
         .room = room,
         .longest = longest,
         .token_cost = companions_.TokenCost(longest),
         .beside_most =
             fitting == 0 ? 0 : companions_.Times(sequence_cost[fitting - 1], sequences)});
  }
}

absl::uint128 WasteBound::At(uint64_t price, bool close_look, absl::uint128 least) {
  values_.resize(anchors_.size());
  uint64_t excess = 0;
  // The longest first: most often they have the highest values, which SortTop looks for.
  for (size_t i = anchors_.size(), next = 0; i-- > 0; ++next) {
    const Anchors& a = anchors_[i];
    const uint64_t own = Own(a, price);
    excess += (a.cost - own) * a.items;
    const uint64_t beside = companions_.Times(std::min(price, a.token_cost), a.room);
    values_[next] = {.value = std::min(ceiling_, own + std::min(a.beside_most, beside)),
                     .items = a.items,
                     .anchors = i};
  }
  if (close_look) LookClosely(price);
  const uint64_t least_value = LeastValue();
  if (MostWaste(least_value) <= least + excess) return 0;
  SortTop(least_value);
  const absl::uint128 waste = WasteOfSorted();
  return waste > least + excess ? waste - excess : 0;
}

void WasteBound::LookClosely(uint64_t price) {
  const size_t looks = std::min(values_.size(), kCloseLooks);
  if (looks < values_.size()) {
    std::nth_element(values_.begin(), values_.begin() + static_cast<ptrdiff_t>(looks - 1),
                     values_.end(), Higher);
  }
  for (size_t i = 0; i < looks; ++i) {
    const Anchors& a = anchors_[values_[i].anchors];
    // Otherwise its value already assumes that nothing beside it is longer than half the room.
    if (a.longest <= a.room / 2) continue;
    const uint64_t beside = std::min(a.beside_most, companions_.Most(price, a.room, a.longest));
    values_[i].value = std::min(values_[i].value, Own(a, price) + beside);
  }
}

uint64_t WasteBound::LeastValue() const {
  if (has_empty_) return 0;
  uint64_t least = ceiling_;
  for (const Value& v : values_) least = std::min(least, v.value);
  return least;
}

absl::uint128 WasteBound::MostWaste(uint64_t least_value) const {
  absl::uint128 waste = 0;
  for (const SlotFloor& floor : floors_) {
    if (floor.cost <= least_value) break;
    waste += absl::uint128(floor.cost - least_value) * (floor.slots * ranks_);
  }
  return waste;
}

// Sorts the values that meet floors above the least value; the order of the others does not matter.
void WasteBound::SortTop(uint64_t least_value) {
  uint64_t bins = 0;
  for (const SlotFloor& floor : floors_) {
    if (floor.cost <= least_value) break;
    bins += floor.slots * ranks_;
  }
  const auto top =
      values_.begin() + static_cast<std::ptrdiff_t>(std::min<uint64_t>(bins, values_.size()));
  if (bins < values_.size() / kFewOf) {
    std::partial_sort(values_.begin(), top, values_.end(), Higher);
    return;
  }
  if (top != values_.end()) std::nth_element(values_.begin(), top, values_.end(), Higher);
  std::sort(values_.begin(), top, Higher);
}

absl::uint128 WasteBound::WasteOfSorted() const {
  absl::uint128 waste = 0;
  size_t next = 0;
  uint64_t left = values_[0].items;
  for (const SlotFloor& floor : floors_) {
    for (uint64_t bins = floor.slots * ranks_; bins > 0;) {
      if (next == values_.size()) {
        waste += absl::uint128(floor.cost) * bins;
        break;
      }
      const uint64_t meet = std::min(bins, left);
      if (values_[next].value < floor.cost) {
        waste += absl::uint128(floor.cost - values_[next].value) * meet;
      }
      bins -= meet;
      left -= meet;
      if (left == 0 && ++next < values_.size()) left = values_[next].items;
    }
  }
  return waste;
}

}  // namespace

// Tries evenly spaced prices, then looks ever closer around the best.
absl::uint128 LeastWaste(std::span<const ItemClass> classes, std::span<const SlotFloor> floors,
                         const BinLimits& limits, uint32_t ranks, const Allowance& allowance) {
  const uint64_t ticks = kTicksToLook + kTicksAClass * classes.size() +
                         kTicksACloseLook * std::min(classes.size(), kCloseLooks);
  if (floors.empty() || !allowance.Affords(ticks)) return 0;
  allowance.Spend(ticks);
  WasteBound bound(classes, floors, limits, ranks);
  const std::vector<uint64_t>& prices = bound.prices();
  absl::uint128 most = 0;
  size_t best = prices.size() - 1;
  const auto attempt = [&](size_t index, bool close_look) {
    const absl::uint128 waste = bound.At(prices[index], close_look, most);
    if (waste > most) {
      most = waste;
      best = index;
    }
  };
  size_t step = CeilDiv(prices.size(), kCoarsePrices);
  // From the highest price down, at which there is no excess.
  for (size_t back = 0; back < prices.size(); back += step) {
    attempt(prices.size() - 1 - back, false);
  }
  attempt(best, true);
  while (most > 0 && step > 1) {
    step = CeilDiv(step, 2);
    const size_t center = best;
    if (center >= step) attempt(center - step, true);
    if (center + step < prices.size()) attempt(center + step, true);
  }
  return most;
}

}  // namespace batchplan
