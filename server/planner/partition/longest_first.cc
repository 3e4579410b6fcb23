#include "server/planner/partition/longest_first.h"

#include <cstddef>
#include <tuple>
#include <utility>

#include "server/planner/partition/descending.h"
#include "server/planner/partition/least_heap.h"

namespace batchplan {
namespace {

// From one look for a stop to the next.
constexpr uint64_t kLoadsPerLook = 65536;

// A part in the order in which parts take loads.
struct Entry {
  uint64_t sum = 0;
  uint64_t count = 0;
  uint32_t part = 0;

  friend bool operator<(const Entry& a, const Entry& b) {
    return std::tie(a.sum, a.count, a.part) < std::tie(b.sum, b.count, b.part);
  }
};

}  // namespace

std::vector<uint32_t> LongestFirst(std::span<const uint64_t> loads, uint32_t parts,
                                   uint64_t most_each, uint64_t least_each,
                                   const Allowance& allowance) {
  LeastHeap<Entry> lightest;
  for (uint32_t part = 0; part < parts; ++part) lightest.Push({.part = part});
  std::vector<uint32_t> part_of(loads.size());
  uint64_t left = loads.size();
  uint64_t needed = parts * least_each;
  for (uint32_t load : DescendingLaterFirst(loads)) {
    if (left % kLoadsPerLook == 0 && allowance.stop_requested()) break;
    if (left == needed && most_each != least_each) {
      lightest.EraseIf([=](const Entry& entry) { return entry.count >= least_each; });
      most_each = least_each;
    }
    Entry entry = lightest.Top();
    part_of[load] = entry.part;
    --left;
    needed -= entry.count < least_each;
    entry.sum += loads[load];
    if (++entry.count < most_each) {
      lightest.RaiseTop(entry);
    } else {
      lightest.Pop();
    }
  }
  return part_of;
}

}  // namespace batchplan
