#include <algorithm>
#include <bit>
#include <limits>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "server/planner/packing/index_set.h"
#include "server/planner/packing/kinds.h"
#include "server/planner/packing/limited_room.h"
#include "server/planner/packing/maxima.h"
#include "server/planner/packing/packer.h"

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

  // The last rank before `end`, of which there is one, whose count is at most `most`; kNone.
  size_t LastUpTo(size_t end, uint32_t most) const {
    size_t node = leaves_ + end - 1;
    while (least_[node] > most) {
      // On to the subtree before this one.
      while (node % 2 == 0) node /= 2;
      if (node <= 1) return IndexSet::kNone;
      --node;
    }
    while (node < leaves_) {
      node = 2 * node + 1;
      if (least_[node] > most) --node;
    }
    return node - leaves_;
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

// Finds items that fit a LimitedRoom, by the ranks of Leftovers.
class FitTree {
 public:
  FitTree(std::span<const uint32_t> ascending, const PackItems& items)
      : size_(ascending.size()),
        numbers_(2 + items.limited.size(), -std::numeric_limits<double>::infinity()),
        // An item's needs, negated, so that a smaller need is a larger number.
        needs_(size_, numbers_) {
    const std::vector<double> removed = numbers_;
    for (size_t rank = 0; rank < size_; ++rank) {
      numbers_[0] = -static_cast<double>(items.lengths[ascending[rank]]);
      numbers_[1] = -static_cast<double>(items.count(ascending[rank]));
      for (size_t load = 0; load < items.limited.size(); ++load) {
        numbers_[2 + load] = -items.limited[load].values[ascending[rank]];
      }
      needs_.Set(size_ - 1 - rank, numbers_);
    }
    numbers_ = removed;
  }

  // The last rank before `end` that `room` holds; kNone.
  size_t LastThatFits(size_t end, const LimitedRoom& room) const {
    std::vector<double> least(numbers_.size());
    least[0] = -static_cast<double>(room.tokens());
    least[1] = -static_cast<double>(room.sequences());
    for (size_t load = 0; load + 2 < least.size(); ++load) least[2 + load] = -room.left(load);
    const size_t found = needs_.FirstAtLeast(size_ - end, least);
    return found < size_ ? size_ - 1 - found : IndexSet::kNone;
  }

  void Remove(size_t rank) { needs_.Set(size_ - 1 - rank, numbers_); }

 private:
  size_t size_;
  std::vector<double> numbers_;  // of an item that is removed
  Maxima<double> needs_;
};

// The items not yet packed, ascending by (length, number). An item's place in that order is its
// rank, so that the small items are one range of ranks, and so on. Room is a BinRoom or, where
// loads are limited, a LimitedRoom.
template <typename Room>
class Leftovers {
 public:
  Leftovers(std::vector<uint32_t> ascending, const PackItems& items)
      : items_(std::move(ascending)), left_(items_.size()) {
    lengths_.reserve(items_.size());
    for (uint32_t item : items_) lengths_.push_back(items.lengths[item]);
    for (size_t rank = 0; rank < items_.size(); ++rank) left_.Insert(rank);
    if constexpr (kIsLimited) {
      fits_.emplace(items_, items);
      return;
    }
    if (items.counts.empty()) return;
    std::vector<uint32_t> counts;
    counts.reserve(items_.size());
    for (uint32_t item : items_) counts.push_back(items.counts[item]);
    counts_.emplace(counts);
  }

  size_t size() const { return items_.size(); }
  uint32_t item(size_t rank) const { return items_[rank]; }
  uint32_t length(size_t rank) const { return lengths_[rank]; }

  bool contains(size_t rank) const { return left_.Contains(rank); }

  // The first rank whose length is above `length`, packed or not.
  size_t RankAbove(uint64_t length) const {
    return std::upper_bound(lengths_.begin(), lengths_.end(), length) - lengths_.begin();
  }

  // The smallest item left with a rank in [begin, end).
  std::optional<size_t> Smallest(size_t begin, size_t end) const {
    const size_t rank = left_.AtLeast(begin);
    return rank < end ? std::optional(rank) : std::nullopt;
  }

  // The largest item left with a rank in [begin, end) that `room` holds.
  std::optional<size_t> LargestThatFits(size_t begin, size_t end, const Room& room) const {
    if constexpr (kIsLimited) {
      const size_t rank = fits_->LastThatFits(end, room);
      return rank != IndexSet::kNone && rank >= begin ? std::optional(rank) : std::nullopt;
    } else {
      return LargestUpTo(begin, end, room);
    }
  }

  void Remove(size_t rank) {
    left_.Erase(rank);
    if (counts_) counts_->Remove(rank);
    if constexpr (kIsLimited) fits_->Remove(rank);
  }

 private:
  static constexpr bool kIsLimited = std::is_same_v<Room, LimitedRoom>;

  std::optional<size_t> LargestUpTo(size_t begin, size_t end, const BinRoom& room) const {
    if (room.sequences == 0 || room.tokens == 0) return std::nullopt;
    const size_t last = std::min(end, RankAbove(room.tokens));
    if (last <= begin) return std::nullopt;
    const size_t rank = counts_ ? counts_->LastUpTo(last, room.sequences) : left_.AtMost(last - 1);
    return rank != IndexSet::kNone && rank >= begin ? std::optional(rank) : std::nullopt;
  }

  std::vector<uint32_t> items_;
  std::vector<uint32_t> lengths_;
  IndexSet left_;
  // If items have several sequences.
  std::optional<CountTree> counts_;
  // If loads are limited.
  std::optional<FitTree> fits_;
};

// The bins of the large items.
template <typename Room>
struct LargeBins {
  std::vector<Room> rooms;
  // Their items in the order in which they were placed.
  std::vector<uint32_t> items;
  std::vector<uint32_t> bin_of;

  size_t size() const { return rooms.size(); }
  void Put(const PackItems& all, uint32_t item, size_t bin) {
    rooms[bin].Take(all, item);
    items.push_back(item);
    bin_of.push_back(static_cast<uint32_t>(bin));
  }
};

template <typename Room>
Bins PackRest(const Leftovers<Room>& left, const PackItems& items, const BinLimits& limits) {
  DecreasingItems rest;
  for (size_t rank = left.size(); rank-- > 0;) {
    if (!left.contains(rank)) continue;
    rest.order.push_back(left.item(rank));
    if (rest.lengths.empty() || rest.lengths.back().length != left.length(rank)) {
      rest.lengths.push_back({.length = left.length(rank), .count = 0});
    }
    ++rest.lengths.back().count;
  }
  if (!items.counts.empty() || !items.limited.empty()) {
    return PackFirstFit(rest.order, items, limits);
  }
  return PackFirstFitDecreasing(rest, limits, MostBins(items, limits));
}

template <typename Room>
Bins PackModified(const PackItems& items, const BinLimits& limits, const Room& empty) {
  const uint32_t capacity = limits.capacity;
  const std::vector<uint32_t> order = DecreasingOrder(items.lengths);
  const auto first_not_large = std::partition_point(order.begin(), order.end(), [&](uint32_t item) {
    return 2 * uint64_t{items.lengths[item]} > capacity;
  });
  LargeBins<Room> bins;
  bins.rooms.assign(first_not_large - order.begin(), empty);
  for (size_t bin = 0; bin < bins.size(); ++bin) bins.Put(items, order[bin], bin);

  Leftovers<Room> left(
      std::vector<uint32_t>(order.rbegin(), std::reverse_iterator(first_not_large)), items);
  const size_t end = left.size();
  const size_t medium = left.RankAbove(capacity / 3);
  const size_t small = left.RankAbove(capacity / 6);
  const auto take = [&](size_t bin, size_t rank) {
    bins.Put(items, left.item(rank), bin);
    left.Remove(rank);
  };
  std::vector<bool> has_medium(bins.size(), false);
  for (size_t bin = 0; bin < bins.size(); ++bin) {
    if (const auto rank = left.LargestThatFits(medium, end, bins.rooms[bin])) {
      take(bin, *rank);
      has_medium[bin] = true;
    }
  }

  for (size_t bin = bins.size(); bin-- > 0;) {
    if (has_medium[bin]) continue;
    const auto smallest = left.Smallest(small, medium);
    if (!smallest) break;
    const auto second = left.Smallest(*smallest + 1, medium);
    if (!second) break;
    Room both = bins.rooms[bin];
    if (!both.Holds(items, left.item(*smallest))) continue;
    both.Take(items, left.item(*smallest));
    if (!both.Holds(items, left.item(*second))) continue;
    take(bin, *smallest);
    take(bin, *left.LargestThatFits(small, medium, bins.rooms[bin]));
  }

  for (size_t bin = 0; bin < bins.size(); ++bin) {
    while (const auto rank = left.LargestThatFits(0, end, bins.rooms[bin])) take(bin, *rank);
  }

  Bins packed(bins.items, bins.bin_of, static_cast<uint32_t>(bins.size()));
  const Bins rest = PackRest(left, items, limits);
  for (size_t bin = 0; bin < rest.size(); ++bin) packed.Add(rest[bin]);
  return packed;
}

}  // namespace

Bins PackModifiedFirstFitDecreasing(const PackItems& items, const BinLimits& limits) {
  return items.limited.empty() ? PackModified(items, limits, BinRoom(limits))
                               : PackModified(items, limits, LimitedRoom(items, limits));
}

}  // namespace batchplan
