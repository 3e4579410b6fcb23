// What a mini-batch consists of, as a pass sees it.

#ifndef BATCHPLAN_SERVER_PLANNER_PASS_ITEMS_H_
#define BATCHPLAN_SERVER_PLANNER_PASS_ITEMS_H_

#include <cstdint>
#include <span>
#include <vector>

#include "server/planner/packing/bins.h"
#include "server/planner/request/cost.h"
#include "server/planner/request/manifest.h"

namespace batchplan {

// Items: each goes to one micro-batch whole, a sequence or a group that stays together there.
// Arrays of one size.
struct Items {
  SequenceLists sequences = {};
  // The room that an item needs, in aligned tokens: in the packed layout the sum of its sequences,
  // in the padded layout the longest of them. An item that runs alone needs all the room there is.
  std::vector<uint32_t> lengths;
  // If some items run alone, the aligned tokens of each item; else empty.
  std::vector<uint32_t> whole_lengths = {};
  // Sequences in an item; empty: one each.
  std::vector<uint32_t> counts;
  std::vector<Cost> costs;
  // The pass's loads that have a limit and are not dealt. An item that runs alone has the limit's
  // value.
  std::vector<PackLoad> limited = {};

  uint32_t size() const { return static_cast<uint32_t>(lengths.size()); }
  // What the items add to the width of their micro-batch.
  std::span<const uint32_t> widths() const {
    return whole_lengths.empty() ? lengths : whole_lengths;
  }
  PackItems ForPacking() const {
    return {.lengths = lengths, .counts = counts, .loads = costs, .limited = limited};
  }
};

// Units: each goes to one rank whole, a sequence or a group that stays together there. Arrays of
// one size.
struct Units {
  SequenceLists sequences;
  std::vector<uint32_t> counts;  // sequences in a unit
  std::vector<uint64_t> loads;   // what ranks are balanced by: aligned tokens or cost

  uint32_t size() const { return static_cast<uint32_t>(loads.size()); }
  // Sequences of all units.
  uint64_t total() const { return sequences.all().size(); }
};

// What the balanced solver evens out: the loads of packed micro-batches, each the sum over its
// items plus per_microbatch.
struct Objective {
  std::vector<uint64_t> loads;  // of each item
  uint64_t per_microbatch = 0;
  // Whether loads are costs.
  bool is_cost = false;
};

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_PASS_ITEMS_H_
