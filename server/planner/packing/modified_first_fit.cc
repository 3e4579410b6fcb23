#include "server/planner/packing/modified_first_fit.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "server/planner/packing/decreasing.h"
#include "server/planner/packing/first_fit.h"

namespace batchplan {
namespace {

// Finds items by their number of sequences: a tournament tree over the ranks of Leftovers.
class CountTree {
 public:
  explicit CountTree(std::span<const uint32_t> counts)
      : leaves_(std::bit_ceil(std::max<size_t>(counts.size(), 1))), least_(2 * leaves_, kRemoved) {
    std::copy(counts.begin(), counts.end(), least_.begin() + static_cast<ptrdiff_t>(leaves_));
    for (size_t node = leaves_ - 1; node > 0; --node) Update(node);
  }

  // One more than the last rank before `end` whose count is at most `most`; 0: there is none.
  size_t LastUpTo(size_t end, uint32_t most) const {
    if (end == 0) return 0;
    size_t node = leaves_ + end - 1;
    while (least_[node] > most) {
      // On to the subtree before this one.
      while (node % 2 == 0) node /= 2;
      if (node <= 1) return 0;
      --node;
    }
    while (node < leaves_) {
      node = 2 * node + 1;
      if (least_[node] > most) --node;
    }
    return node - leaves_ + 1;
  }

  void Remove(size_t rank) {
    least_[leaves_ + rank] = kRemoved;
    for (size_t node = (leaves_ + rank) / 2; node > 0; node /= 2) Update(node);
  }

 private:
  static constexpr uint32_t kRemoved = std::numeric_limits<uint32_t>::max();

  void Update(size_t node) { least_[node] = std::min(least_[2 * node], least_[2 * node + 1]); }

  size_t leaves_;
  std::vector<uint32_t> least_;
};

// The items not yet packed, ascending by (length, position), so that each class is one range of
// ranks. Removal and search take near-constant time: a removed rank points to its neighbour, and
// paths are halved as they are walked.
class Leftovers {
 public:
  Leftovers(std::vector<uint32_t> ascending, const PackItems& items)
      : items_(std::move(ascending)), below_(items_.size() + 1), above_(items_.size() + 1) {
    lengths_.reserve(items_.size());
    for (uint32_t item : items_) lengths_.push_back(items.lengths[item]);
    std::iota(below_.begin(), below_.end(), size_t{0});
    std::iota(above_.begin(), above_.end(), size_t{0});
    if (items.counts.empty()) return;
    std::vector<uint32_t> counts;
    for (uint32_t item : items_) counts.push_back(items.counts[item]);
    counts_.emplace(counts);
  }

  size_t size() const { return items_.size(); }
  uint32_t item(size_t rank) const { return items_[rank]; }
  uint32_t length(size_t rank) const { return lengths_[rank]; }

  // The first rank whose length is above `length`, packed or not.
  size_t RankAbove(uint64_t length) const {
    return std::upper_bound(lengths_.begin(), lengths_.end(), length) - lengths_.begin();
  }

  // The smallest item left with a rank in [begin, end).
  std::optional<size_t> Smallest(size_t begin, size_t end) {
    const size_t rank = Find(above_, begin);
    return rank < end ? std::optional(rank) : std::nullopt;
  }

  // The largest item left with a rank in [begin, end) that `room` holds.
  std::optional<size_t> LargestThatFits(size_t begin, size_t end, const BinRoom& room) {
    if (room.sequences == 0) return std::nullopt;
    const size_t last = std::min(end, RankAbove(room.tokens));
    // below_ is shifted by one: below_[r + 1] stands for rank r, and 0 for "none".
    const size_t found = counts_ ? counts_->LastUpTo(last, room.sequences) : Find(below_, last);
    return found > begin ? std::optional(found - 1) : std::nullopt;
  }

  void Remove(size_t rank) {
    above_[rank] = rank + 1;
    below_[rank + 1] = rank;
    if (counts_) counts_->Remove(rank);
  }

 private:
  static size_t Find(std::vector<size_t>& parent, size_t at) {
    while (parent[at] != at) at = parent[at] = parent[parent[at]];
    return at;
  }

  std::vector<uint32_t> items_;
  std::vector<uint32_t> lengths_;
  std::vector<size_t> below_;
  std::vector<size_t> above_;
  // Where items are of several sequences.
  std::optional<CountTree> counts_;
};

struct OpenBin {
  std::vector<uint32_t> items;
  BinRoom room;
  bool has_medium = false;
};

}  // namespace

Bins PackModifiedFirstFitDecreasing(const PackItems& items, const BinLimits& limits) {
  const uint32_t capacity = limits.capacity;
  std::vector<uint32_t> order = DecreasingOrder(items.lengths);

  const auto first_not_large = std::partition_point(order.begin(), order.end(), [&](uint32_t item) {
    return 2 * uint64_t{items.lengths[item]} > capacity;
  });
  std::vector<OpenBin> bins;
  bins.reserve(first_not_large - order.begin());
  for (auto large = order.begin(); large != first_not_large; ++large) {
    bins.push_back({.items = {*large}, .room = BinRoom(limits)});
    bins.back().room.Take(items, *large);
  }

  Leftovers left(std::vector<uint32_t>(order.rbegin(), std::reverse_iterator(first_not_large)),
                 items);
  const size_t end = left.size();
  const size_t medium = left.RankAbove(capacity / 3);
  const size_t small = left.RankAbove(capacity / 6);
  const auto take = [&](OpenBin& bin, size_t rank) {
    bin.items.push_back(left.item(rank));
    bin.room.Take(items, left.item(rank));
    left.Remove(rank);
  };
  for (OpenBin& bin : bins) {
    if (const auto rank = left.LargestThatFits(medium, end, bin.room)) {
      take(bin, *rank);
      bin.has_medium = true;
    }
  }

  for (auto bin = bins.rbegin(); bin != bins.rend(); ++bin) {
    if (bin->has_medium) continue;
    const auto smallest = left.Smallest(small, medium);
    if (!smallest) break;
    const auto second = left.Smallest(*smallest + 1, medium);
    if (!second) break;
    BinRoom both = bin->room;
    if (!both.Holds(items, left.item(*smallest))) continue;
    both.Take(items, left.item(*smallest));
    if (!both.Holds(items, left.item(*second))) continue;
    take(*bin, *smallest);
    take(*bin, *left.LargestThatFits(small, medium, bin->room));
  }

  for (OpenBin& bin : bins) {
    while (const auto rank = left.LargestThatFits(0, end, bin.room)) take(bin, *rank);
  }

  Bins packed;
  for (const OpenBin& bin : bins) packed.Add(bin.items);
  std::vector<uint32_t> rest;
  for (auto rank = left.Smallest(0, end); rank; rank = left.Smallest(*rank + 1, end)) {
    rest.push_back(left.item(*rank));
  }
  std::reverse(rest.begin(), rest.end());
  const Bins last = PackFirstFit(rest, items, limits);
  for (size_t bin = 0; bin < last.size(); ++bin) packed.Add(last[bin]);
  return packed;
}

}  // namespace batchplan
