// What is put into the micro-batches of a mini-batch, or of one rank's share of it.

#ifndef BATCHPLAN_SERVER_PLANNER_ITEMS_H_
#define BATCHPLAN_SERVER_PLANNER_ITEMS_H_

#include <cstdint>
#include <vector>

#include "server/planner/cost.h"
#include "server/planner/packing/bins.h"
#include "server/planner/sequence_lists.h"

namespace batchplan {

// What goes to one micro-batch whole, a sequence or a group that stays together there. Arrays of
// one size.
struct Items {
  SequenceLists sequences = {};
  // Aligned tokens: in the packed layout the sum of the item's sequences, in the padded layout the
  // longest of them.
  std::vector<uint32_t> lengths;
  // Sequences in an item; empty: one each.
  std::vector<uint32_t> counts;
  std::vector<Cost> costs;

  uint32_t size() const { return static_cast<uint32_t>(lengths.size()); }
  PackItems ForPacking() const { return {.lengths = lengths, .counts = counts, .loads = costs}; }
};

// What goes to one rank whole, a sequence or a group that stays together there. Arrays of one size.
struct Units {
  SequenceLists sequences;
  std::vector<uint32_t> counts;  // sequences in a unit
  std::vector<uint64_t> loads;   // what ranks are balanced by: aligned tokens or cost

  uint32_t size() const { return static_cast<uint32_t>(loads.size()); }
  // Sequences of all units.
  uint64_t total() const { return sequences.all().size(); }
};

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_ITEMS_H_
