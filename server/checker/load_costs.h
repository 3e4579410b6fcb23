// What micro-batches have of each load, what that costs them, and how a pass has spread it.

#ifndef BATCHPLAN_SERVER_CHECKER_LOAD_COSTS_H_
#define BATCHPLAN_SERVER_CHECKER_LOAD_COSTS_H_

#include <cstddef>
#include <vector>

#include "absl/status/status.h"
#include "server/checker/pass_under_check.h"

namespace batchplan::checker {

// A load that is computed before the rest of micro-batches, and what it costs each of them; of a
// dealt one what the rank with most of its slot takes.
struct LoadPhase {
  size_t load = 0;
  bool dealt = false;
  std::vector<double> costs;
};

// Of a pass whose item_ranks are known to be right. Views all that it is created from.
class LoadCosts {
 public:
  LoadCosts(const PassUnderCheck& pass, const std::vector<Microbatch>& microbatches);

  // Of the loads that are computed with the rest of a micro-batch, on each of its ranks.
  double InRow(size_t microbatch) const;
  // In the order of the manifest.
  const std::vector<LoadPhase>& phases() const { return phases_; }

  // Internal unless metrics.loads says how each load is spread, in the order of the manifest; with
  // groups that differ in size, nothing. Times within 1e-6 of the step's.
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
  // The greatest over all ranks of a slot, at each of its micro-batches.
  std::vector<double> MostOfSlots(const std::vector<double>& values) const;

  const PassUnderCheck& pass_;
  const std::vector<Microbatch>& microbatches_;
  // By load and micro-batch: of a dealt load what the rank has of the slot.
  std::vector<std::vector<double>> sums_;
  std::vector<LoadPhase> phases_;
};

}  // namespace batchplan::checker

#endif  // BATCHPLAN_SERVER_CHECKER_LOAD_COSTS_H_
