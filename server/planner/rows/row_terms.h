// The terms of a search for rows of a mini-batch.

#ifndef BATCHPLAN_SERVER_PLANNER_ROWS_ROW_TERMS_H_
#define BATCHPLAN_SERVER_PLANNER_ROWS_ROW_TERMS_H_

#include <cstdint>
#include <span>

#include "server/planner/pass/pass.h"
#include "server/planner/request/options.h"
#include "server/planner/rows/row.h"
#include "server/planner/rows/row_items.h"

namespace batchplan {

// The limits of rows, and the time to shorten.
struct RowTerms {
  // The time is under kLockstep the sum over slots of the costliest row, otherwise the costliest
  // rank's sum.
  Synchronization synchronization = Synchronization::kLockstep;
  uint32_t ranks = 1;
  uint32_t slots = 1;
  uint64_t capacity = 0;
  uint32_t max_sequences = 0;
  // Whether items stay on their ranks, and whether ranks keep equal numbers of sequences, within
  // one if ranks do not divide them.
  bool keeps_ranks = false;
  bool keeps_counts = false;
  // Whether bins may be empty.
  bool may_empty = false;
  // The pass whose limits on dealt loads hold for each rank in a slot. Null if there are none.
  const Pass* dealt_limits_of = nullptr;
  // Whether a bin stays in its slot unless it is exchanged, because more than the costs of its bins
  // tells one slot from another.
  bool fixed_slots = false;
};

// Whether the dealt loads of a slot's bins and of the items `added` keep their limits once they are
// dealt.
bool DealsWithin(const RowItems& items, const RowTerms& terms, std::span<const Row> bins,
                 uint32_t slot, std::span<const uint32_t> added);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_ROWS_ROW_TERMS_H_
