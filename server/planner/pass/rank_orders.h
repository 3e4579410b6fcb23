// Orders of micro-batches in which the pipelines of a placement's ranks are done soonest.

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

// One order for each rank; if ranks wait for each other at every slot or share its width, one order
// for all, of slots at the cost of their costliest micro-batch. In lockstep without shared widths,
// slots are formed of the micro-batches as they stand, or of each rank's sorted ones, whichever is
// done sooner. Empty micro-batches stay last.
//
//   const RankOrders orders(pass, placement, allowance);
//   const std::vector<uint32_t> positions = orders.Positions();
class RankOrders {
 public:
  // For a pass with a pipeline; views the placement. Chooses the best of a few orders
  // (find_order.h), those of MicrobatchOrder among them: sorted by cost before rows are padded,
  // compared by cost after. Then improves the order of the slowest rank, with as many simulations
  // as the effort and their work allow. Spends all simulations. A placement gets the same orders
  // wherever it is compared, as long as the allowance and its reserve afford the simulations. If
  // they don't, micro-batches stay as they stand, which is simulated once. Any orders once a stop
  // is requested.
  RankOrders(const Pass& pass, const Placement& placement, const Allowance& allowance);

  // The makespan of the slowest rank; of the slots' maxima if one order is for all ranks.
  double makespan() const;

  // Position m gets micro-batch number Positions()[m] of the placement.
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
