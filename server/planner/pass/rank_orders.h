// The orders in which the pipelines of a placement's ranks are done soonest.

#ifndef BATCHPLAN_SERVER_PLANNER_PASS_RANK_ORDERS_H_
#define BATCHPLAN_SERVER_PLANNER_PASS_RANK_ORDERS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "server/planner/pass/pass.h"
#include "server/planner/pass/placement.h"
#include "server/planner/request/allowance.h"
#include "server/planner/time/find_order.h"

namespace batchplan {

// One order for each rank. Where ranks wait for each other at every slot, or share its width, one
// for all, of slots that cost what their costliest micro-batch does; there a slot has of each rank
// the micro-batch that stands in it, or the next smaller one, whichever is done sooner. Empty
// micro-batches stay last.
//
//   const RankOrders orders(pass, placement, allowance);
//   const std::vector<uint32_t> positions = orders.Positions();
class RankOrders {
 public:
  // Of a few orders the best, those of MicrobatchOrder among them (find_order.h): rows padded,
  // sorted by what they cost before that. Then the slowest rank's is improved, by as many
  // simulations as the effort and the work of each allow. The simulations are spent. They are as
  // many as long as the allowance and its reserve afford them, so that a placement has the same
  // orders wherever it is compared; after that micro-batches stay as they stand, which is simulated
  // once. Once a stop is requested, any orders. Of a pass with a pipeline; views the placement.
  RankOrders(const Pass& pass, const Placement& placement, const Allowance& allowance);

  // Of the slowest rank, in lockstep of the slots' maxima.
  double makespan() const;

  // Number Positions()[m] of the placement's micro-batches comes to position m.
  std::vector<uint32_t> Positions() const;

 private:
  struct Lane {
    std::vector<double> costs;  // by slot
    size_t movable = 0;
    PipelineOrder order;
  };
  struct Lanes {
    // Number at[r * slots + s] of the micro-batches stands in slot s of rank r.
    std::vector<uint32_t> at;
    std::vector<Lane> lanes;
    size_t slowest = 0;
    double makespan = 0;  // of that
  };

  Lanes LanesOf(std::vector<uint32_t> at, const std::vector<Cost>& costs,
                const std::vector<Cost>& unpadded);
  void Improve(uint64_t simulations);
  uint64_t TicksOf(uint64_t simulations) const;

  const Placement& placement_;
  const Allowance& allowance_;
  const bool together_;
  PipelineSimulator simulator_;
  Lanes best_;
};

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_PASS_RANK_ORDERS_H_
