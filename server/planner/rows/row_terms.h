// What rows of a mini-batch may be.

#ifndef BATCHPLAN_SERVER_PLANNER_ROWS_ROW_TERMS_H_
#define BATCHPLAN_SERVER_PLANNER_ROWS_ROW_TERMS_H_

#include <cstdint>
#include <span>

#include "server/planner/pass/pass.h"
#include "server/planner/request/options.h"
#include "server/planner/rows/row.h"
#include "server/planner/rows/row_items.h"

namespace batchplan {

// What rows may be, and what is to be short.
struct RowTerms {
  // Under kLockstep the sum over slots of their costliest rows, else the costliest rank's sum.
  Synchronization synchronization = Synchronization::kLockstep;
  uint32_t ranks = 1;
  uint32_t slots = 1;
  uint64_t capacity = 0;
  uint32_t max_sequences = 0;
  // Items stay on their ranks; or ranks keep their numbers of sequences, within one of each other
  // where ranks do not divide these.
  bool keeps_ranks = false;
  bool keeps_counts = false;
  // Whether bins may be empty.
  bool may_empty = false;
  // Of dealt loads: what each rank may have of a slot. Null if there are no such limits.
  const Pass* dealt_limits_of = nullptr;
  // Whether a bin stays in its slot unless it is exchanged: where slots are not told apart by the
  // costs of their bins alone.
  bool fixed_slots = false;
};

// Whether what the bins of a slot, and `added` to it, have of dealt loads is within limits once it
// is dealt.
bool DealsWithin(const RowItems& items, const RowTerms& terms, std::span<const Row> bins,
                 uint32_t slot, std::span<const uint32_t> added);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_ROWS_ROW_TERMS_H_
