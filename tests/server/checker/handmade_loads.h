// The sums and costs of loads in a handmade plan.

#ifndef BATCHPLAN_TESTS_SERVER_CHECKER_HANDMADE_LOADS_H_
#define BATCHPLAN_TESTS_SERVER_CHECKER_HANDMADE_LOADS_H_

#include <string>
#include <vector>

#include "server/planner/plan.h"
#include "server/planner/request/manifest.h"
#include "server/planner/request/options.h"

namespace batchplan::testing {

// The sequences of a mini-batch by rank and slot.
using SlotsOfRanks = std::vector<std::vector<std::vector<uint32_t>>>;
// A value for each micro-batch of a mini-batch.
using ByRankAndSlot = std::vector<std::vector<double>>;

// Deals the items of all mini-batches' slots. There is one entry for each dealt load of the model;
// items of sequences that are not planned have rank 0.
std::vector<LoadRanks> DealItems(const Manifest& manifest, const CostModel& model,
                                 const std::vector<SlotsOfRanks>& mini_batches);

// A load with a phase of its own, and the costs of that phase; a dealt load costs all ranks
// equally.
struct HandmadePhase {
  bool dealt = false;
  ByRankAndSlot costs;
};

// Adds up the loads, one mini-batch after another.
class HandmadeLoads {
 public:
  HandmadeLoads(const Manifest& manifest, const PlanOptions& options);

  // `item_ranks` must be the result of DealItems.
  void Add(const SlotsOfRanks& mini_batch, const std::vector<LoadRanks>& item_ranks);

  // For the last mini-batch: the costs of loads without a phase in each micro-batch, and the
  // phases.
  const ByRankAndSlot& in_rows() const { return in_rows_; }
  const std::vector<HandmadePhase>& phases() const { return phases_; }
  // The cost of all loads of a sequence.
  double CostOf(uint32_t sequence) const;
  // The metrics over all mini-batches.
  std::vector<LoadMetrics> Metrics() const;

 private:
  // The load of each micro-batch; if dealt, of each rank in each slot.
  ByRankAndSlot SumsOf(const Load& load, const SlotsOfRanks& mini_batch,
                       const std::vector<LoadRanks>& item_ranks) const;

  const Manifest& manifest_;
  const PlanOptions& options_;
  ByRankAndSlot in_rows_;
  std::vector<HandmadePhase> phases_;
  std::vector<LoadMetrics> metrics_;  // with the sum in place of the mean
  std::vector<double> busiest_;
  double microbatches_ = 0;
  double ranks_ = 1;
};

}  // namespace batchplan::testing

#endif  // BATCHPLAN_TESTS_SERVER_CHECKER_HANDMADE_LOADS_H_
