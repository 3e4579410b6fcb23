// Items and bins: the input and the output of every packer.
//
// The words of this folder:
//   item       what is packed as a whole: a sequence, or several that stay together. Items have no
//              names but their numbers, 0 .. n - 1, as they stand in the spans given.
//   length     an item's tokens, aligned; what a bin's capacity limits.
//   load       what an item adds to the time of its bin, where that matters. A *limited* load has a
//              limit in each bin, as tokens have.
//   kind       the items of one length (kinds.h); the *demand* for a kind is how many there are.
//   bin        a micro-batch. Its *room* is what it can still take, its *slack* what it leaves
//              empty in the end. A bin is *open* once it has an item.
//   pattern    how often each kind is in a bin (covering_program.h).
//   bound      what no packing goes below; proven.
//   steps      how the work of a search is counted and limited, so that it ends at the same place
//              on every machine (allowance.h).

#ifndef BATCHPLAN_SERVER_PLANNER_PACKING_BINS_H_
#define BATCHPLAN_SERVER_PLANNER_PACKING_BINS_H_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <utility>
#include <vector>

namespace batchplan {

// A limited load: each item's value, and the limit of a bin. Values are at least 0 and at most
// `most`.
struct PackLoad {
  std::vector<double> values;
  // Includes slack for the rounding of sums.
  double most = 0;
};

// What is packed, as views of one size. An item is a sequence, or several that stay together.
struct PackItems {
  std::span<const uint32_t> lengths;
  // Sequences in an item; empty: one each.
  std::span<const uint32_t> counts = {};
  // What PACKER_KARMARKAR_KARP evens out; empty: the lengths.
  std::span<const uint64_t> loads = {};
  // At most kMaxLoads.
  std::span<const PackLoad> limited = {};

  size_t size() const { return lengths.size(); }
  uint32_t count(uint32_t item) const { return counts.empty() ? 1 : counts[item]; }
};

struct BinLimits {
  uint32_t capacity = 0;
  // Sequences in one bin.
  uint32_t max_sequences = std::numeric_limits<uint32_t>::max();
};

// The room of one bin if no load is limited; otherwise see LimitedRoom (limited_room.h).
struct BinRoom {
  explicit BinRoom(const BinLimits& limits)
      : tokens(limits.capacity), sequences(limits.max_sequences) {}

  bool Holds(const PackItems& items, uint32_t item) const {
    return items.lengths[item] <= tokens && items.count(item) <= sequences;
  }
  void Take(const PackItems& items, uint32_t item) {
    tokens -= items.lengths[item];
    sequences -= items.count(item);
  }

  friend bool operator==(const BinRoom&, const BinRoom&) = default;

  uint32_t tokens;
  uint32_t sequences;
};

// The most bins of a packer that opens one only for an item that no open bin holds. The item that
// opened a bin overflows every bin before it, in tokens, in sequences or in a limited load, so any
// two bins hold more together than one may. O(n).
size_t MostBins(const PackItems& items, const BinLimits& limits);

// Bins as one flat array: bin b holds items[offsets[b] .. offsets[b + 1]).
class Bins {
 public:
  // No bins.
  Bins() : offsets_{0} {}

  // The bins 0 .. bin_count - 1, item items[i] in bin bin_of[i]; in a bin, items keep this order.
  Bins(std::span<const uint32_t> items, std::span<const uint32_t> bin_of, uint32_t bin_count);

  // From these arrays; offsets rise from 0 to items.size().
  Bins(std::vector<uint32_t> items, std::vector<uint32_t> offsets)
      : items_(std::move(items)), offsets_(std::move(offsets)) {}

  size_t size() const { return offsets_.size() - 1; }
  std::span<const uint32_t> operator[](size_t bin) const {
    return std::span(items_).subspan(offsets_[bin], offsets_[bin + 1] - offsets_[bin]);
  }

  // Appends a bin.
  void Add(std::span<const uint32_t> items);

 private:
  std::vector<uint32_t> items_;
  std::vector<uint32_t> offsets_;
};

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_PACKING_BINS_H_
