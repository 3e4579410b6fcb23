#include "server/planner/packing/packer.h"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <map>
#include <numeric>
#include <set>
#include <utility>
#include <vector>

#include "server/planner/packing/karmarkar_karp.h"
#include "server/planner/packing/limited_packers.h"
#include "server/planner/packing/limited_room.h"
#include "server/planner/packing/orders.h"

namespace batchplan {
namespace {

// The room left in every bin, as a tournament tree: the root is the most tokens, and the most
// sequences, left anywhere. A bin that nobody has opened has all its room, so first fit opens one
// exactly when no open bin fits.
class RoomTree {
 public:
  RoomTree(size_t bins, const BinLimits& limits)
      : leaves_(std::bit_ceil(std::max<size_t>(bins, 1))), most_(2 * leaves_, BinRoom(limits)) {}

  // Puts the item into the lowest bin that holds it, of which there is one.
  uint32_t FirstFit(const PackItems& items, uint32_t item) {
    size_t node = 1;
    while (node < leaves_ || !most_[node].Holds(items, item)) {
      if (most_[node].Holds(items, item)) {
        node *= 2;
      } else {
        // The tokens are in one bin, the sequences in another: on to the next subtree.
        while (node % 2 == 1) node /= 2;
        ++node;
      }
    }
    const size_t bin = node - leaves_;
    most_[node].Take(items, item);
    // Sequences run out with tokens to spare: nothing fits any more, and nothing is looked for.
    if (most_[node].sequences == 0) most_[node].tokens = 0;
    while (node > 1) {
      node /= 2;
      BinRoom most = most_[2 * node];
      most.tokens = std::max(most.tokens, most_[2 * node + 1].tokens);
      most.sequences = std::max(most.sequences, most_[2 * node + 1].sequences);
      if (most_[node] == most) break;
      most_[node] = most;
    }
    return static_cast<uint32_t>(bin);
  }

 private:
  size_t leaves_;
  std::vector<BinRoom> most_;
};

}  // namespace

Bins PackFirstFit(std::span<const uint32_t> order, const PackItems& items,
                  const BinLimits& limits) {
  if (!items.limited.empty()) return LimitedFirstFit(order, items, limits);
  RoomTree tree(std::min(order.size(), MostBins(items, limits)), limits);
  std::vector<uint32_t> bin_of(order.size());
  uint32_t bins = 0;
  for (size_t i = 0; i < order.size(); ++i) {
    bin_of[i] = tree.FirstFit(items, order[i]);
    bins = std::max(bins, bin_of[i] + 1);
  }
  return Bins(order, bin_of, bins);
}

namespace {

// The bins that still hold something, by what they have left.
class OpenBins {
 public:
  OpenBins(const PackItems& items, const BinLimits& limits) : items_(items), limits_(limits) {}

  // The fullest bin that holds the item, out of the open ones; a new one if there is none.
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

  // Where every item is one sequence, whatever number is left is as good as another.
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
