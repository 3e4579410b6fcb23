#include "server/planner/packing/first_fit.h"

#include <algorithm>
#include <bit>
#include <vector>

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
  RoomTree tree(std::min(order.size(), MostBins(items, limits)), limits);
  std::vector<uint32_t> bin_of(order.size());
  uint32_t bins = 0;
  for (size_t i = 0; i < order.size(); ++i) {
    bin_of[i] = tree.FirstFit(items, order[i]);
    bins = std::max(bins, bin_of[i] + 1);
  }
  return Bins(order, bin_of, bins);
}

}  // namespace batchplan
