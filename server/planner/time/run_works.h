// The recurrence of a simulation: when works of a schedule end, for one list of costs or for four
// of them at once.
//
// Each work waits for the one before, so that a processor spends most of a simulation waiting; four
// simulations in one vector take little longer than one. All of it is sums, products and maxima of
// doubles, work by work: a list of costs has the same ends to the bit alone and beside others, with
// the vectors of any processor.

#ifndef BATCHPLAN_SERVER_PLANNER_TIME_RUN_WORKS_H_
#define BATCHPLAN_SERVER_PLANNER_TIME_RUN_WORKS_H_

#include <cstddef>
#include <span>

#include "server/planner/time/wavefront.h"

namespace batchplan {

// One number of each of four simulations.
struct alignas(32) Four {
  double of[4] = {};

  double& operator[](size_t simulation) { return of[simulation]; }
  double operator[](size_t simulation) const { return of[simulation]; }
};

// What works need, and what becomes of it; as spans of doubles, or of four at once.
template <typename Number>
struct WorkTimes {
  std::span<const Number> costs;   // by micro-batch
  std::span<const double> shares;  // of the cost, by PipelineWork::share
  double transfer = 0;
  std::span<Number> free;  // when each stage is
  std::span<Number> ends;  // by PipelineWork::end
};

// Whether this processor computes four doubles in one instruction. Every 64-bit one computes two.
bool HasVectorsOfFour();

void RunWorks(std::span<const PipelineWork> works, const WorkTimes<double>& times);
void RunWorks(std::span<const PipelineWork> works, const WorkTimes<Four>& times,
              bool vectors_of_four = HasVectorsOfFour());

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_TIME_RUN_WORKS_H_
