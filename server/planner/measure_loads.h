// How a pass's plan spreads loads.

#ifndef BATCHPLAN_SERVER_PLANNER_MEASURE_LOADS_H_
#define BATCHPLAN_SERVER_PLANNER_MEASURE_LOADS_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "server/planner/pass/pass.h"
#include "server/planner/plan.h"
#include "server/planner/request/cost.h"

namespace batchplan {

// The micro-batches begin .. end - 1 of a plan, as lists of sequences.
SequenceLists MicrobatchesOf(const PassPlan& plan, size_t begin, size_t end);

// Sums over the mini-batches of a pass, each with its micro-batches as a Placement has them.
class LoadMeasure {
 public:
  explicit LoadMeasure(const Pass& pass);

  // `phases` are the mini-batch's PhaseCosts.
  void Add(const SequenceLists& microbatches, uint32_t slots,
           std::span<const std::vector<Cost>> phases);

  // One entry a load of the manifest.
  std::vector<LoadMetrics> Metrics() const;

 private:
  struct Sums {
    double largest = 0;
    double all = 0;
    // Over mini-batches.
    double busiest_ranks = 0;
    double separate_time = 0;
  };

  // Each micro-batch's part of the load; of a dealt load, what its rank computes in the slot.
  std::vector<double> ValuesOf(size_t load, const SequenceLists& microbatches,
                               uint32_t slots) const;
  // The time of a separate load where phases add up.
  double AddedUp(size_t load) const;
  double TimeOf(const LoadPhase& phase, std::span<const Cost> costs, uint32_t slots) const;

  const Pass& pass_;
  std::vector<Sums> sums_;
  uint64_t microbatches_ = 0;
};

// The ranks of the items of the pass's dealt loads, in the order of its phases.
std::vector<LoadRanks> ItemRanksOf(const Pass& pass, const PassPlan& plan);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_MEASURE_LOADS_H_
