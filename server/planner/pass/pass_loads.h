// The loads of a pass: their limits, their phases, and their costs by sequence.

#ifndef BATCHPLAN_SERVER_PLANNER_PASS_PASS_LOADS_H_
#define BATCHPLAN_SERVER_PLANNER_PASS_PASS_LOADS_H_

#include <algorithm>
#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "absl/functional/function_ref.h"
#include "server/planner/packing/bins.h"
#include "server/planner/request/cost.h"
#include "server/planner/request/loads.h"
#include "server/planner/request/manifest.h"
#include "server/planner/request/options.h"

namespace batchplan {

// The limit of micro-batches on a load.
struct LoadBudget {
  size_t load = 0;
  // Includes slack for the rounding of sums.
  double most = 0;
  // Whether the limit is one on each rank's part of a slot's dealt items.
  bool dealt = false;
};

// A load that is computed in a phase of its own, before the rest of its micro-batch, and after
// which ranks wait for each other: in lockstep, or because it is dealt.
struct LoadPhase {
  size_t load = 0;
  // In units of the cost model, on each rank of a micro-batch.
  double per_unit = 0;
  bool dealt = false;
};

// Views the manifest's loads.
class PassLoads {
 public:
  // The loads of a pass in which `sequences` sequences are planned. They cost nothing until
  // SetCosts.
  PassLoads(const PlanOptions& request, const PassOptions& pass, const Loads& given,
            size_t sequences);

  // The manifest's.
  const Loads& given() const { return *given_; }
  std::span<const LoadBudget> limits() const { return limits_; }
  // Whether a limit is on a dealt load.
  bool deals_within_limits() const { return std::ranges::any_of(limits_, &LoadBudget::dealt); }
  std::span<const LoadPhase> phases() const { return phases_; }

  // Whether a sequence has more of a load than its limit, so that it runs alone.
  bool IsAboveLimits(SequenceIndex sequence) const {
    return above_limits_ != nullptr && (*above_limits_)[sequence.value()];
  }
  bool some_are_above_limits() const { return above_limits_ != nullptr; }
  // The loads that have a limit and are not dealt, with the value of each list as one item.
  // Sequences that run alone have the limit's value.
  std::vector<PackLoad> LimitedOf(const SequenceLists& lists,
                                  absl::FunctionRef<bool(SequenceIndex)> runs_alone) const;

  // The cost of all loads of all sequences, in units of the cost model.
  double Units() const;
  // From now on loads have costs, in the scale of `cost`.
  void SetCosts(const CostFunction& cost);
  // The cost of a sequence's loads that are part of its micro-batch's cost: those without a phase,
  // or all if phases add up.
  Cost InMicrobatch(SequenceIndex sequence) const { return At(in_microbatch_, sequence); }
  // The cost of all its loads, wherever they are computed.
  Cost OfAll(SequenceIndex sequence) const { return At(all_, sequence); }

  // These loads without limits. If `with_phases`, phases that are not dealt are part of the cost of
  // micro-batches, in the scale of `cost`; if not, they cost nothing.
  PassLoads Plain(bool with_phases, const CostFunction& cost) const;

 private:
  // What a load costs.
  struct Price {
    size_t load = 0;
    // As LoadPhase has it.
    double per_unit = 0;
    bool dealt = false;
    bool has_phase = false;
  };
  // By sequence; null if there are none.
  using Costs = std::shared_ptr<const std::vector<Cost>>;

  static Cost At(const Costs& costs, SequenceIndex sequence) {
    return costs == nullptr ? 0 : (*costs)[sequence.value()];
  }
  void FindAboveLimits();
  // The costs of loads without a phase; if `phases`, also of those with a phase, and if `dealt`, of
  // dealt ones.
  Costs CostsOf(bool phases, bool dealt, const CostFunction& cost) const;

  const Loads* given_;
  size_t sequences_;
  std::vector<LoadBudget> limits_;
  std::vector<Price> prices_;
  std::vector<LoadPhase> phases_;
  // By sequence; null if there are none.
  std::shared_ptr<const std::vector<bool>> above_limits_;
  Costs in_microbatch_;
  Costs all_;
};

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_PASS_PASS_LOADS_H_
