// What the micro-batches of one rank should cost, so that its pipeline is done soon.
//
// A pipeline fills while its first micro-batches go down the stages, and empties while the last
// ones come back up: it is done sooner if these are small, and if the others do not jump. How a
// given total is best divided among micro-batches is a convex problem, as the makespan is convex in
// their costs (simulator.h).

#ifndef BATCHPLAN_SERVER_PLANNER_TIME_PROFILE_H_
#define BATCHPLAN_SERVER_PLANNER_TIME_PROFILE_H_

#include <span>
#include <vector>

#include "server/planner/time/simulator.h"

namespace batchplan {

// All in units of cost, those of the whole model, one a micro-batch in the order in which they run.
struct ProfileTask {
  // The cost of all micro-batches together, without their fixed costs.
  double total = 0;
  // The fixed cost of every micro-batch, on top.
  double fixed = 0;
  // The least cost of each micro-batch: that of a sequence which must be in it; empty: 0.
  std::span<const double> least = {};
  // The most that a micro-batch can cost: that of a full one, or its `least` if that is more.
  double most = 0;
};

struct Profile {
  std::vector<double>
      costs;  // without the fixed ones; their sum is the total, or they are at `most`
  double makespan = 0;
  // How much the makespan grows with each unit of the total.
  double slope = 0;
};

// Looks for the costs with the least makespan, in `simulations` simulations. Begins with `start` if
// it has one cost a micro-batch. By mirror descent (A. Nemirovsky, D. Yudin: Problem Complexity and
// Method Efficiency in Optimization, 1983): costs are multiplied by less the more the makespan
// grows with them, and scaled to their total. `simulator` traces; total > 0.
Profile FindProfile(PipelineSimulator& simulator, const ProfileTask& task, int simulations,
                    std::span<const double> start = {});

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_TIME_PROFILE_H_
