#include "server/planner/pass/pass_loads.h"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <utility>

namespace batchplan {

PassLoads::PassLoads(const PlanOptions& request, const PassOptions& pass, const Loads& given,
                     size_t sequences)
    : given_(&given), sequences_(sequences) {
  const CostModel& model = request.cost_model;
  limits_.reserve(pass.limits.size());
  for (const LoadLimit& limit : pass.limits) {
    limits_.push_back({.load = given.NumberOf(limit.load),
                       .most = limit.max_per_microbatch * kLimitSlack,
                       .dealt = IsDealt(model, limit.load)});
  }
  const bool in_lockstep = request.synchronization == Synchronization::kLockstep;
  prices_.reserve(model.loads.size());
  for (const LoadCost& cost : model.loads) {
    prices_.push_back({.load = given.NumberOf(cost.load),
                       .per_unit = cost.per_unit / request.topology.context_parallel,
                       .dealt = cost.dealt,
                       .has_phase = cost.dealt || (cost.separate && in_lockstep)});
  }
  for (const Price& price : prices_) {
    if (!price.has_phase) continue;
    phases_.push_back({.load = price.load, .per_unit = price.per_unit, .dealt = price.dealt});
  }
  if (request.overlong == OverlongPolicy::kAlone) FindAboveLimits();
}

void PassLoads::FindAboveLimits() {
  if (limits_.empty()) return;
  std::vector<bool> above(sequences_, false);
  for (uint32_t i = 0; i < sequences_; ++i) {
    above[i] = std::ranges::any_of(limits_, [&](const LoadBudget& limit) {
      return !limit.dealt && given_->Of(limit.load, SequenceIndex(i)) > limit.most;
    });
  }
  if (std::ranges::find(above, true) == above.end()) return;
  above_limits_ = std::make_shared<const std::vector<bool>>(std::move(above));
}

std::vector<PackLoad> PassLoads::LimitedOf(
    const SequenceLists& lists, absl::FunctionRef<bool(SequenceIndex)> runs_alone) const {
  std::vector<PackLoad> limited;
  for (const LoadBudget& limit : limits_) {
    if (limit.dealt) continue;
    PackLoad& load = limited.emplace_back();
    load.most = limit.most;
    load.values.reserve(lists.size());
    // Without the slack, so that the item fits an empty micro-batch, however sums are rounded.
    const double whole = limit.most / kLimitSlack;
    for (size_t item = 0; item < lists.size(); ++item) {
      double sum = 0;
      for (const SequenceIndex sequence : lists[item]) {
        sum += runs_alone(sequence) ? whole : given_->Of(limit.load, sequence);
      }
      load.values.push_back(std::min(sum, whole));
    }
  }
  return limited;
}

double PassLoads::Units() const {
  double units = 0;
  for (const Price& price : prices_) {
    const std::span<const double> values = given_->values(price.load);
    units += price.per_unit * std::accumulate(values.begin(), values.end(), 0.0);
  }
  return units;
}

void PassLoads::SetCosts(const CostFunction& cost) {
  in_microbatch_ = CostsOf(/*phases=*/false, /*dealt=*/false, cost);
  all_ = CostsOf(/*phases=*/true, /*dealt=*/true, cost);
}

PassLoads PassLoads::Plain(bool with_phases, const CostFunction& cost) const {
  PassLoads plain = *this;
  plain.limits_.clear();
  plain.phases_.clear();
  plain.in_microbatch_ = CostsOf(with_phases, /*dealt=*/false, cost);
  return plain;
}

PassLoads::Costs PassLoads::CostsOf(bool phases, bool dealt, const CostFunction& cost) const {
  std::vector<Cost> costs;
  for (const Price& price : prices_) {
    const bool is_asked = price.dealt ? dealt : phases || !price.has_phase;
    if (!is_asked) continue;
    costs.resize(sequences_, 0);
    const std::span<const double> values = given_->values(price.load);
    for (size_t i = 0; i < costs.size(); ++i) {
      costs[i] += static_cast<Cost>(cost.FromUnits(price.per_unit * values[i]));
    }
  }
  return costs.empty() ? nullptr : std::make_shared<const std::vector<Cost>>(std::move(costs));
}

}  // namespace batchplan
