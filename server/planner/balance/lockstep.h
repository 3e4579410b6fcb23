// The balanced solver for ranks that meet after every micro-batch.

#ifndef BATCHPLAN_SERVER_PLANNER_BALANCE_LOCKSTEP_H_
#define BATCHPLAN_SERVER_PLANNER_BALANCE_LOCKSTEP_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "server/planner/balance/lockstep_findings.h"
#include "server/planner/packing/bins.h"
#include "server/planner/request/allowance.h"

namespace batchplan {

struct LockstepTask {
  // Costs are their loads, with a total below 2^62.
  PackItems items;
  BinLimits limits;
  uint32_t ranks = 1;
  uint32_t slots = 1;
  // The rank of each item; every rank then has at least `slots` items. Empty: the solver decides.
  std::span<const uint32_t> rank_of;
  // Whether every rank gets the same number of sequences, within one where `ranks` does not divide
  // them. Every item is one sequence then.
  bool equal_counts = false;
  // A packing within the limits to start from if the solver can't fill the bins by itself. Ignored
  // if it has more than ranks * slots bins or if the ranks are given.
  const Bins* start = nullptr;
  // Whether the solver fills all bins alike (alike_bins.h), not by longest processing time first.
  bool fill_alike = false;
  // The bins are known to be too few or too tight for the solver to fill: only `start` is tried.
  bool start_only = false;
  // A step time, without the fixed cost of micro-batches, that can't or need not be beaten. The
  // search ends once it gets there, or below kThorough within a ten-thousandth of it.
  uint64_t enough = 0;
  Effort effort = Effort::kDefault;
  // Once it is spent, the searches end with the first bins found. Once a stop is requested, the
  // solver ends soon with a useless result.
  Allowance allowance = {};
  // Of these items, kept for searches at other efforts; null: there are none. Not if ranks are
  // given.
  LockstepFindings* findings = nullptr;
};

struct BalancedBins {
  // Slot s of rank r is bin r * slots + s; the slots of a rank are sorted by descending cost.
  Bins bins;
  // The sum over slots of the costliest bin; the fixed cost of a micro-batch is left out.
  uint64_t step_time = 0;
};

// Puts the items into exactly ranks * slots bins within the limits, none of them empty, such that
// the step time is low. There are at least as many items as bins. Nothing if no such packing is
// found.
//
// Slots whose time one long item dictates are filled first, the rest by longest processing time
// first under the token budget. Exchanges make room for items that fit nowhere. Then a local search
// evens out the bins of each slot. O(n log n) time, O(n) memory; the search takes a number of steps
// that grows with the items and the effort.
std::optional<BalancedBins> BalanceLockstep(const LockstepTask& task);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_BALANCE_LOCKSTEP_H_
