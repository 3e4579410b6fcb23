// What is put into the micro-batches of a mini-batch, or of one rank's share of it.

#ifndef BATCHPLAN_SERVER_PLANNER_ITEMS_H_
#define BATCHPLAN_SERVER_PLANNER_ITEMS_H_

#include <cstdint>
#include <vector>

#include "server/planner/cost.h"
#include "server/planner/packing/bins.h"

namespace batchplan {

// Blocks of sequences that share a micro-batch, most often of one sequence each, known by their
// position in a list of blocks. Arrays of one size.
struct Items {
  // Aligned tokens: in the packed layout the sum of the block's sequences, in the padded layout the
  // longest of them.
  std::vector<uint32_t> lengths;
  // Sequences in a block; empty: one each.
  std::vector<uint32_t> counts;
  std::vector<Cost> costs;

  uint32_t size() const { return static_cast<uint32_t>(lengths.size()); }
  PackItems ForPacking() const { return {.lengths = lengths, .counts = counts, .loads = costs}; }
};

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_ITEMS_H_
