// The order in which a rank runs its micro-batches.

#ifndef BATCHPLAN_SERVER_PLANNER_TIME_FIND_ORDER_H_
#define BATCHPLAN_SERVER_PLANNER_TIME_FIND_ORDER_H_

#include <cstddef>
#include <cstdint>
#include <random>
#include <span>
#include <vector>

#include "server/planner/request/options.h"
#include "server/planner/time/simulator.h"

namespace batchplan {

struct PipelineOrder {
  // Micro-batch number order[i] runs as number i.
  std::vector<uint32_t> order;
  double makespan = 0;
};

// Reorders descending costs to rise and then fall: those at even positions, reversed, then those at
// odd ones.
void PutSmallAtBothEnds(std::span<uint32_t> descending);

// Simulations of QuickOrder.
inline constexpr uint64_t kQuickOrders = 5;

// The best of a few orders, of equal ones the earlier: as given, by key ascending and descending,
// small ones at both ends, and rising while the pipeline fills. Only the first `movable`
// micro-batches change places. `keys` has one entry a micro-batch, its cost or a substitute.
// kQuickOrders simulations, or one if fewer than two may change places.
PipelineOrder QuickOrder(PipelineSimulator& simulator, std::span<const double> costs,
                         std::span<const double> keys, size_t movable);

// Swaps micro-batches of an order as long as that shortens the makespan: until it is below
// `enough`, or `simulations` are used up. Returns the number of simulations left.
uint64_t ImproveOrder(PipelineSimulator& simulator, std::span<const double> costs, size_t movable,
                      double enough, uint64_t simulations, std::minstd_rand& random,
                      PipelineOrder& order);

// The most simulations that ImproveOrder is given, by effort, and the most forwards and backwards
// in all of them.
uint64_t SimulationsToImprove(Effort effort);
inline constexpr uint64_t kMostWorksToImprove = 200'000;

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_TIME_FIND_ORDER_H_
