// What the loads of a plan written down by hand come to.

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
// Something of each of its micro-batches.
using ByRankAndSlot = std::vector<std::vector<double>>;

// The items of all mini-batches' slots, dealt: one entry for each dealt load of the model, with 0
// for the items of sequences that are nowhere.
std::vector<LoadRanks> DealItems(const Manifest& manifest, const CostModel& model,
                                 const std::vector<SlotsOfRanks>& mini_batches);

// A load that is computed by itself, and what that costs; a dealt one costs all ranks as much.
struct HandmadePhase {
  bool dealt = false;
  ByRankAndSlot costs;
};

// The loads of one mini-batch after another.
class HandmadeLoads {
 public:
  HandmadeLoads(const Manifest& manifest, const PlanOptions& options);

  // Item ranks are those of DealItems.
  void Add(const SlotsOfRanks& mini_batch, const std::vector<LoadRanks>& item_ranks);

  // Of the last mini-batch: what loads without a phase cost each micro-batch, and phases.
  const ByRankAndSlot& in_rows() const { return in_rows_; }
  const std::vector<HandmadePhase>& phases() const { return phases_; }
  // What all loads of a sequence cost.
  double CostOf(uint32_t sequence) const;
  // Of all mini-batches.
  std::vector<LoadMetrics> Metrics() const;

 private:
  // The load of each micro-batch, or, dealt, of each rank in each slot.
  ByRankAndSlot SumsOf(const Load& load, const SlotsOfRanks& mini_batch,
                       const std::vector<LoadRanks>& item_ranks) const;

  const Manifest& manifest_;
  const PlanOptions& options_;
  ByRankAndSlot in_rows_;
  std::vector<HandmadePhase> phases_;
  std::vector<LoadMetrics> metrics_;  // the mean is the sum
  std::vector<double> busiest_;
  double microbatches_ = 0;
  double ranks_ = 1;
};

}  // namespace batchplan::testing

#endif  // BATCHPLAN_TESTS_SERVER_CHECKER_HANDMADE_LOADS_H_
