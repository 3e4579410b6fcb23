#include "server/planner/packing/packer.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <map>
#include <numeric>
#include <set>
#include <utility>
#include <vector>

#include "server/planner/packing/karmarkar_karp.h"
#include "server/planner/packing/limited_packers.h"
#include "server/planner/packing/limited_room.h"
#include "server/planner/packing/maxima.h"
#include "server/planner/packing/orders.h"

namespace batchplan {
namespace {

// The rooms of bins if no load is limited; otherwise see LimitedRooms. Views the items.
class PlainRooms {
 public:
  PlainRooms(const PackItems& items, const BinLimits& limits, size_t bins)
      : items_(items), most_(bins, std::array{limits.capacity, limits.max_sequences}) {}

  size_t FirstThatHolds(size_t begin, uint32_t item) const {
    return most_.FirstAtLeast(begin, std::array{items_.lengths[item], items_.count(item)});
  }

  void Take(size_t bin, uint32_t item) {
    const auto room = most_[bin];
    const uint32_t sequences = room[1] - items_.count(item);
    // If sequences run out with tokens to spare, nothing fits any more, and tokens count as 0.
    const uint32_t tokens = sequences == 0 ? 0 : room[0] - items_.lengths[item];
    most_.Set(bin, std::array{tokens, sequences});
  }

 private:
  const PackItems& items_;
  Maxima<uint32_t, 2> most_;
};

// First fit into these rooms, which suffice. A bin that is not open has all its room, so a bin is
// opened exactly if no open one fits.
template <typename Rooms>
Bins FirstFit(std::span<const uint32_t> order, Rooms rooms) {
  std::vector<uint32_t> bin_of(order.size());
  uint32_t bins = 0;
  for (size_t i = 0; i < order.size(); ++i) {
    const size_t bin = rooms.FirstThatHolds(0, order[i]);
    rooms.Take(bin, order[i]);
    bin_of[i] = static_cast<uint32_t>(bin);
    bins = std::max(bins, bin_of[i] + 1);
  }
  return Bins(order, bin_of, bins);
}

}  // namespace

Bins PackFirstFit(std::span<const uint32_t> order, const PackItems& items,
                  const BinLimits& limits) {
  const size_t most = std::min(order.size(), MostBins(items, limits));
  if (items.limited.empty()) return FirstFit(order, PlainRooms(items, limits, most));
  return FirstFit(order, LimitedRooms(items, std::vector(most, LimitedRoom(items, limits))));
}

namespace {

// The bins that may still get items, by their room.
class OpenBins {
 public:
  OpenBins(const PackItems& items, const BinLimits& limits) : items_(items), limits_(limits) {}

  // Removes the fullest open bin that holds the item and returns it; a new bin if there is none.
  uint32_t Take(uint32_t item) {
    BySequences::iterator best_class = open_.end();
    ByTokens::iterator best;
    for (auto found = open_.lower_bound(Class(items_.count(item))); found != open_.end(); ++found) {
      const auto tightest = found->second.lower_bound({items_.lengths[item], 0});
      if (tightest == found->second.end()) continue;
      if (best_class != open_.end() && *best < *tightest) continue;
      best_class = found;
      best = tightest;
    }
    if (best_class == open_.end()) {
      rooms_.emplace_back(limits_);
      return static_cast<uint32_t>(rooms_.size() - 1);
    }
    const uint32_t bin = best->second;
    best_class->second.erase(best);
    if (best_class->second.empty()) open_.erase(best_class);
    return bin;
  }

  void Put(uint32_t item, uint32_t bin) {
    BinRoom& room = rooms_[bin];
    room.Take(items_, item);
    if (room.tokens == 0 || room.sequences == 0) return;
    open_[Class(room.sequences)].insert({room.tokens, bin});
  }

  uint32_t size() const { return static_cast<uint32_t>(rooms_.size()); }

 private:
  using ByTokens = std::set<std::pair<uint32_t, uint32_t>>;  // (tokens left, bin)
  using BySequences = std::map<uint32_t, ByTokens>;

  // If every item is one sequence, any number left is as good as another.
  uint32_t Class(uint32_t sequences) const { return items_.counts.empty() ? 1 : sequences; }

  const PackItems& items_;
  const BinLimits& limits_;
  BySequences open_;
  std::vector<BinRoom> rooms_;
};

}  // namespace

Bins PackBestFit(std::span<const uint32_t> order, const PackItems& items, const BinLimits& limits) {
  if (!items.limited.empty()) return LimitedBestFit(order, items, limits);
  OpenBins open(items, limits);
  std::vector<uint32_t> bin_of(order.size());
  for (size_t i = 0; i < order.size(); ++i) {
    bin_of[i] = open.Take(order[i]);
    open.Put(order[i], bin_of[i]);
  }
  return Bins(order, bin_of, open.size());
}

namespace {

// By the rule of PackConcatenative, into bins that start as `empty`, a BinRoom or LimitedRoom.
template <typename Room>
Bins Concatenate(const PackItems& items, const Room& empty) {
  if (items.size() == 0) return Bins();
  std::vector<uint32_t> order(items.size());
  std::iota(order.begin(), order.end(), 0u);
  std::vector<uint32_t> offsets = {0};
  Room room = empty;
  for (uint32_t item : order) {
    if (!room.Holds(items, item)) {
      offsets.push_back(item);
      room = empty;
    }
    room.Take(items, item);
  }
  offsets.push_back(static_cast<uint32_t>(items.size()));
  return Bins(std::move(order), std::move(offsets));
}

}  // namespace

Bins PackConcatenative(const PackItems& items, const BinLimits& limits) {
  return items.limited.empty() ? Concatenate(items, BinRoom(limits))
                               : Concatenate(items, LimitedRoom(items, limits));
}

Bins Pack(Packer packer, const PackItems& items, const BinLimits& limits, uint64_t seed,
          const Allowance& allowance) {
  switch (packer) {
    case Packer::kConcatenative:
      return PackConcatenative(items, limits);
    case Packer::kFirstFitDecreasing:
      return PackFirstFitDecreasing(items, limits);
    case Packer::kFirstFitShuffle:
      return PackFirstFit(ShuffledOrder(static_cast<uint32_t>(items.size()), seed), items, limits);
    case Packer::kModifiedFirstFitDecreasing:
      return PackModifiedFirstFitDecreasing(items, limits);
    case Packer::kBestFitDecreasing:
      return PackBestFitDecreasing(items, limits);
    case Packer::kKarmarkarKarp:
      return PackKarmarkarKarp(items, limits, 1, allowance);
    case Packer::kBalanced:
      break;
  }
  std::abort();  // kBalanced is PackFewest (fewest_bins.h), which callers ask for themselves.
}

}  // namespace batchplan
