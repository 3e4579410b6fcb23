// The packed micro-batches of all ranks at once, for given shares: those that run at the same time
// are made alike.

#ifndef BATCHPLAN_SERVER_PLANNER_RANKS_SHARE_BALANCER_H_
#define BATCHPLAN_SERVER_PLANNER_RANKS_SHARE_BALANCER_H_

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "server/planner/packing/bins.h"
#include "server/planner/pass/pass.h"
#include "server/planner/request/allowance.h"
#include "server/planner/request/decision.h"

namespace batchplan {

struct BalancedShares {
  std::vector<Bins> ranks;
  // On pipelines, the numbers of slots that were tried.
  TriedSlots tried = {};
};

// Views the pass, which must outlive it.
class ShareBalancer {
 public:
  // Of the items of each rank. O(n log n).
  ShareBalancer(const Pass& pass, std::span<const Items* const> ranks, const Allowance& allowance);

  // A lower bound on the step time of any placement, without the fixed cost of micro-batches, in
  // the loads of the pass's objective (Pass::ObjectiveOf).
  uint64_t bound() const { return bound_; }
  // Whether these loads are costs, so that the bound is one on the predicted step time.
  bool is_cost() const { return is_cost_; }

  // For each rank exactly `slots` bins of its items, sorted by descending load; a rank with fewer
  // items than slots has one bin for each item. Nothing if no such bins are found, or if a stop is
  // requested (balance/lockstep.h).
  //
  // On pipelines, bins in the order in which they run: on each rank `slots` or more, as many as
  // finish the slowest rank soonest (solve_pipeline.h); nothing if a rank has fewer items.
  std::optional<BalancedShares> Balance(uint32_t slots, const Allowance& allowance) const;

 private:
  std::optional<BalancedShares> BalancePipelines(uint32_t slots, const Allowance& allowance) const;

  const Pass& pass_;
  std::vector<uint32_t> offsets_;  // of each rank's items among all; one more than ranks
  std::vector<uint32_t> lengths_;
  std::vector<uint32_t> counts_;  // empty: one sequence each
  std::vector<uint64_t> loads_;
  uint64_t per_microbatch_ = 0;
  bool is_cost_ = false;
  uint64_t bound_ = 0;
};

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_RANKS_SHARE_BALANCER_H_
