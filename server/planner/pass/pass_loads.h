// The loads of a pass: which of them micro-batches may not exceed, which are computed in phases of
// their own, and what they cost each sequence.

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

// A load that micro-batches may not exceed.
struct LoadBudget {
  size_t load = 0;
  // With room for the rounding of sums.
  double most = 0;
  // Of what each rank has of a slot's items, dealt.
  bool dealt = false;
};

// A load that is computed in a phase of its own, before the rest of its micro-batch, and for which
// ranks wait: in lockstep, or because it is dealt.
struct LoadPhase {
  size_t load = 0;
  // In units of the cost model, on each rank of a micro-batch.
  double per_unit = 0;
  bool dealt = false;
};

// Views the manifest's loads.
class PassLoads {
 public:
  // Of a pass of the request, in which `sequences` sequences are planned. They cost nothing until
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
  // What items of these sequences have of the loads with a limit that are not dealt. Sequences that
  // run alone have as much as there may be.
  std::vector<PackLoad> LimitedOf(const SequenceLists& lists,
                                  absl::FunctionRef<bool(SequenceIndex)> runs_alone) const;

  // What all loads of all sequences cost, in units of the cost model.
  double Units() const;
  // Costs are from now on in the scale of `cost`.
  void SetCosts(const CostFunction& cost);
  // What a sequence costs for its loads that are part of its micro-batch's cost, as they have no
  // phase, or as phases add up.
  Cost InMicrobatch(SequenceIndex sequence) const { return At(in_microbatch_, sequence); }
  // What all its loads cost, wherever they are computed.
  Cost OfAll(SequenceIndex sequence) const { return At(all_, sequence); }

  // These loads without limits. Phases that are not dealt are part of the cost of micro-batches, in
  // the scale of `cost`, or cost nothing, unless `with_phases`.
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
  // Of loads without a phase, and of those with one, dealt or not, where that is asked.
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
