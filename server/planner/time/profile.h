// What the micro-batches of one rank should cost, so that its pipeline is done soon.
//
// A pipeline fills while its first micro-batches go down the stages, and empties while the last
// ones come back up: it is done sooner if these are small, and if the others do not jump. To divide
// a given total among micro-batches is a convex problem, as the makespan is convex in their costs
// (simulator.h).

#ifndef BATCHPLAN_SERVER_PLANNER_TIME_PROFILE_H_
#define BATCHPLAN_SERVER_PLANNER_TIME_PROFILE_H_

#include <span>
#include <vector>

#include "server/planner/time/simulator.h"

namespace batchplan {

// In units of cost, of the whole model. Spans have one entry a micro-batch, in the order in which
// they run.
struct ProfileTask {
  // The cost of all micro-batches together, without their fixed costs.
  double total = 0;
  // The fixed cost of every micro-batch, on top.
  double fixed = 0;
  // The least cost of each micro-batch: that of the sequence that must be in it; empty: 0.
  std::span<const double> least = {};
  // The most that a micro-batch can cost, unless its `least` is more: the cost of a full one.
  double most = 0;
  // The costs to begin with, if there is one a micro-batch.
  std::span<const double> start = {};
};

struct Profile {
  // Without fixed costs; their sum is the total, or all are at `most`.
  std::vector<double> costs;
  double makespan = 0;
  // How much the makespan grows with each unit of the total.
  double slope = 0;
};

// Searches for the costs with the least makespan, in `simulations` simulations. By mirror descent
// (A. Nemirovsky, D. Yudin: Problem Complexity and Method Efficiency in Optimization, 1983): each
// cost is multiplied by a factor that is smaller the more the makespan grows with it, and all are
// scaled to their total. REQUIRES: `simulator` traces; total > 0.
Profile FindProfile(PipelineSimulator& simulator, const ProfileTask& task, int simulations);

// The same for each task, four at once.
std::vector<Profile> FindProfiles(PipelineSimulator& simulator, std::span<const ProfileTask> tasks,
                                  int simulations);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_TIME_PROFILE_H_
