// The loads of micro-batches, their costs, and how a pass has spread them.

#ifndef BATCHPLAN_SERVER_CHECKER_LOAD_COSTS_H_
#define BATCHPLAN_SERVER_CHECKER_LOAD_COSTS_H_

#include <cstddef>
#include <vector>

#include "absl/status/status.h"
#include "server/checker/pass_under_check.h"

namespace batchplan::checker {

// A load that is computed before the rest of micro-batches, and its cost in each; for a dealt load
// the cost of the slot's rank with most.
struct LoadPhase {
  size_t load = 0;
  bool dealt = false;
  std::vector<double> costs;
};

// For a pass whose item_ranks are known to be right. Views its arguments.
class LoadCosts {
 public:
  LoadCosts(const PassUnderCheck& pass, const std::vector<Microbatch>& microbatches);

  // The cost of loads that are computed with the rest of a micro-batch, on each of its ranks.
  double InRow(size_t microbatch) const;
  // In the order of the manifest.
  const std::vector<LoadPhase>& phases() const { return phases_; }

  // Internal unless metrics.loads says how each load is spread, in the order of the manifest, and
  // is empty with groups that differ in size. Times within 1e-6 of the step's.
  absl::Status CheckMetrics(double step_time) const;

 private:
  struct Spread {
    double largest = 0;
    double all = 0;
    // Summed over mini-batches.
    double busiest_ranks = 0;
    double separate_time = 0;
  };

  void SumLoads();
  void CostPhases();
  Spread SpreadOf(size_t load) const;
  // For each micro-batch, the greatest value over all ranks of its slot.
  std::vector<double> MostOfSlots(const std::vector<double>& values) const;

  const PassUnderCheck& pass_;
  const std::vector<Microbatch>& microbatches_;
  // By load and micro-batch; for a dealt load the rank's part of the slot.
  std::vector<std::vector<double>> sums_;
  std::vector<LoadPhase> phases_;
};

}  // namespace batchplan::checker

#endif  // BATCHPLAN_SERVER_CHECKER_LOAD_COSTS_H_
