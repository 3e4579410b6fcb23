#include "server/planner/balance/slot_waste.h"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <vector>

namespace batchplan {
namespace {

constexpr size_t kCoarsePrices = 16;

uint64_t CeilDiv(uint64_t a, uint64_t b) { return a / b + (a % b != 0); }

// The items that are the longest of their micro-batch, and what may lie beside them.
struct Anchors {
  uint64_t cost;
  uint64_t length;
  uint64_t items;
  uint64_t room;         // tokens beside it
  uint64_t token_cost;   // the most that a token beside it costs
  uint64_t beside_most;  // the most that all sequences beside it cost
};

struct Value {
  uint64_t value;
  uint64_t items;
};

class WasteBound {
 public:
  WasteBound(std::span<const ItemClass> classes, std::span<const SlotFloor> floors,
             const BinLimits& limits, uint32_t ranks);

  // Prices worth trying: those of the tokens of items that can lie beside others, ascending.
  const std::vector<uint64_t>& prices() const { return prices_; }

  // W(price), or 0 if that is negative.
  absl::uint128 At(uint64_t price);

 private:
  uint64_t ValueOf(const Anchors& a, uint64_t price) const {
    const uint64_t own = a.length <= half_ ? std::min(a.cost, Times(price, a.length)) : a.cost;
    return std::min(ceiling_,
                    own + std::min(a.beside_most, Times(std::min(price, a.token_cost), a.room)));
  }
  // Capped by the ceiling, above which a value makes no difference.
  uint64_t Times(uint64_t a, uint64_t b) const {
    const absl::uint128 product = absl::uint128(a) * b;
    return product > ceiling_ ? ceiling_ : absl::Uint128Low64(product);
  }

  std::span<const SlotFloor> floors_;
  uint64_t ranks_;
  uint64_t half_;
  uint64_t ceiling_;
  std::vector<Anchors> anchors_;
  std::vector<uint64_t> prices_;
  std::vector<Value> values_;
};

WasteBound::WasteBound(std::span<const ItemClass> classes, std::span<const SlotFloor> floors,
                       const BinLimits& limits, uint32_t ranks)
    : floors_(floors), ranks_(ranks), half_(limits.capacity / 2), ceiling_(floors.front().cost) {
  std::vector<ItemClass> by_length(classes.begin(), classes.end());
  std::stable_sort(by_length.begin(), by_length.end(),
                   [](const ItemClass& a, const ItemClass& b) { return a.length < b.length; });
  // The highest cost of a token and of a sequence in the first k + 1 of them.
  std::vector<uint64_t> token_cost;
  std::vector<uint64_t> sequence_cost;
  for (const ItemClass& c : by_length) {
    const uint64_t of_token = CeilDiv(c.cost, c.length);
    const uint64_t of_sequence = CeilDiv(c.cost, c.sequences);
    if (c.length <= half_) prices_.push_back(of_token);
    token_cost.push_back(std::max(of_token, token_cost.empty() ? 0 : token_cost.back()));
    sequence_cost.push_back(
        std::max(of_sequence, sequence_cost.empty() ? 0 : sequence_cost.back()));
  }
  std::sort(prices_.begin(), prices_.end());
  prices_.erase(std::unique(prices_.begin(), prices_.end()), prices_.end());
  if (prices_.empty()) prices_.push_back(0);

  anchors_.reserve(by_length.size());
  for (const ItemClass& c : by_length) {
    const uint64_t room = limits.capacity - c.length;
    const uint64_t longest = std::min<uint64_t>(c.length, room);
    const size_t fitting =
        std::partition_point(by_length.begin(), by_length.end(),
                             [&](const ItemClass& other) { return other.length <= longest; }) -
        by_length.begin();
    Anchors anchors{.cost = c.cost,
                    .length = c.length,
                    .items = c.items,
                    .room = room,
                    .token_cost = 0,
                    .beside_most = 0};
    if (fitting > 0 && c.sequences < limits.max_sequences) {
      anchors.token_cost = token_cost[fitting - 1];
      anchors.beside_most = Times(sequence_cost[fitting - 1], limits.max_sequences - c.sequences);
    }
    anchors_.push_back(anchors);
  }
}

absl::uint128 WasteBound::At(uint64_t price) {
  values_.clear();
  uint64_t excess = 0;
  uint64_t least = ceiling_;
  for (const Anchors& a : anchors_) {
    if (a.length <= half_) {
      const uint64_t priced = Times(price, a.length);
      if (priced < a.cost) excess += (a.cost - priced) * a.items;
    }
    const uint64_t value = ValueOf(a, price);
    least = std::min(least, value);
    values_.push_back({value, a.items});
  }
  std::sort(values_.begin(), values_.end(),
            [](const Value& a, const Value& b) { return a.value > b.value; });

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
  return waste > excess ? waste - excess : 0;
}

}  // namespace

// Ever closer around the best of evenly spread prices.
absl::uint128 LeastWaste(std::span<const ItemClass> classes, std::span<const SlotFloor> floors,
                         const BinLimits& limits, uint32_t ranks) {
  if (floors.empty()) return 0;
  WasteBound bound(classes, floors, limits, ranks);
  const std::vector<uint64_t>& prices = bound.prices();
  absl::uint128 most = 0;
  size_t best = prices.size() - 1;
  const auto attempt = [&](size_t index) {
    const absl::uint128 waste = bound.At(prices[index]);
    if (waste > most) {
      most = waste;
      best = index;
    }
  };
  size_t step = CeilDiv(prices.size(), kCoarsePrices);
  // At the highest there is no excess.
  for (size_t back = 0; back < prices.size(); back += step) attempt(prices.size() - 1 - back);
  while (most > 0 && step > 1) {
    step = CeilDiv(step, 2);
    const size_t center = best;
    if (center >= step) attempt(center - step);
    if (center + step < prices.size()) attempt(center + step);
  }
  return most;
}

}  // namespace batchplan
