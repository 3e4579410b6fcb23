// Targets: what every micro-batch of every rank should cost, before anything is put into it.

#ifndef BATCHPLAN_SERVER_PLANNER_LANES_TARGETS_H_
#define BATCHPLAN_SERVER_PLANNER_LANES_TARGETS_H_

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "server/planner/packing/bins.h"
#include "server/planner/request/allowance.h"
#include "server/planner/time/profile.h"
#include "server/planner/time/simulator.h"

namespace batchplan {

// Micro-batches for the ranks of pipelines, `slots` for each.
struct PipelineTask {
  // The items' loads are costs of the whole model, with a total of at least 1 and below 2^62.
  PackItems items;
  BinLimits limits;
  uint32_t ranks = 1;
  uint32_t slots = 1;
  Pipeline pipeline = {};
  // The fixed cost of every micro-batch, in units of load.
  double fixed = 0;
  // Whether ranks wait for each other after every slot, which then runs as long as its costliest
  // micro-batch.
  bool lockstep = false;
  // The rank of each item; empty: the solver decides.
  std::span<const uint32_t> rank_of = {};
  // Whether every rank gets the same number of sequences, within one where `ranks` does not divide
  // them. Every item is one sequence then.
  bool equal_counts = false;
  Effort effort = Effort::kDefault;
  Allowance allowance = {};
};

struct Targets {
  // The target of bin s of rank r is number r * slots + s, without the fixed cost.
  std::vector<double> costs;
  // Items costlier than most targets, and the bins that they are meant for.
  std::vector<std::pair<uint32_t, uint32_t>> placed;
};

// Divides the total cost among ranks and slots so that the slowest lane is done soon, as if items
// could be cut. Only the costliest items stay whole: they are spread over the ranks or kept on few
// of them, whichever is better, and their ranks get less of the rest. `descending` are the items by
// load. A few hundred simulations a rank.
Targets FindTargets(const PipelineTask& task, std::span<const uint32_t> descending,
                    PipelineSimulator& simulator);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_LANES_TARGETS_H_
