#include "server/checker/load_costs.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <numeric>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/checker/request_loads.h"
#include "server/checker/stated_metrics.h"
#include "server/checker/violation.h"

namespace batchplan::checker {

LoadCosts::LoadCosts(const PassUnderCheck& pass, const std::vector<Microbatch>& microbatches)
    : pass_(pass), microbatches_(microbatches) {
  // Requests with groups that differ in size have no loads.
  if (!pass.pass_demands.groups.empty()) return;
  SumLoads();
  CostPhases();
}

void LoadCosts::SumLoads() {
  const PassPlan& plan = pass_.plan;
  const std::vector<RequestLoad>& loads = pass_.loads.all();
  sums_.assign(loads.size(), std::vector<double>(microbatches_.size(), 0));
  for (size_t load = 0; load < loads.size(); ++load) {
    if (loads[load].dealt) continue;
    for (size_t m = 0; m < microbatches_.size(); ++m) {
      for (size_t p = microbatches_[m].begin; p < microbatches_[m].end; ++p) {
        sums_[load][m] += loads[load].values[plan.sequence_index[p]];
      }
    }
  }
  if (pass_.loads.dealt().empty()) return;
  // The micro-batch of each planned sequence.
  std::vector<uint32_t> placement(pass_.demands.planned_lengths.size(), kNowhere);
  for (size_t m = 0; m < microbatches_.size(); ++m) {
    for (size_t p = microbatches_[m].begin; p < microbatches_[m].end; ++p) {
      placement[plan.sequence_index[p]] = static_cast<uint32_t>(m);
    }
  }
  for (size_t entry = 0; entry < plan.item_ranks.size(); ++entry) {
    const size_t load = pass_.loads.dealt()[entry];
    for (const LoadItem& item : loads[load].items) {
      const uint32_t m = placement[item.sequence];
      if (m == kNowhere) continue;
      // The micro-batches of a mini-batch are ordered by rank, then slot.
      const size_t slots = plan.microbatches_per_rank[microbatches_[m].mini_batch];
      const size_t first = m - microbatches_[m].rank * slots;
      sums_[load][first + plan.item_ranks[entry].ranks[item.number] * slots] += item.value;
    }
  }
}

std::vector<double> LoadCosts::MostOfSlots(const std::vector<double>& values) const {
  std::map<std::pair<uint32_t, uint32_t>, double> most;
  for (size_t m = 0; m < values.size(); ++m) {
    double& slot = most[{microbatches_[m].mini_batch, microbatches_[m].slot}];
    slot = std::max(slot, values[m]);
  }
  std::vector<double> of_slots(values.size());
  for (size_t m = 0; m < values.size(); ++m) {
    of_slots[m] = most[{microbatches_[m].mini_batch, microbatches_[m].slot}];
  }
  return of_slots;
}

void LoadCosts::CostPhases() {
  const double ranks = pass_.request.topology.context_parallel;
  for (size_t load = 0; load < sums_.size(); ++load) {
    const RequestLoad& own = pass_.loads.all()[load];
    if (!own.has_phase) continue;
    LoadPhase& phase = phases_.emplace_back();
    phase = {.load = load, .dealt = own.dealt, .costs = sums_[load]};
    if (own.dealt) phase.costs = MostOfSlots(phase.costs);
    for (double& cost : phase.costs) cost *= own.per_unit / ranks;
  }
}

double LoadCosts::InRow(size_t microbatch) const {
  double cost = 0;
  for (size_t load = 0; load < sums_.size(); ++load) {
    const RequestLoad& own = pass_.loads.all()[load];
    if (!own.has_phase) cost += own.per_unit * sums_[load][microbatch];
  }
  return cost / pass_.request.topology.context_parallel;
}

LoadCosts::Spread LoadCosts::SpreadOf(size_t load) const {
  Spread spread;
  const auto phase = std::ranges::find(phases_, load, &LoadPhase::load);
  const bool in_lockstep = pass_.request.synchronization == Synchronization::kLockstep;
  // Keyed by mini-batch, then rank.
  std::map<uint32_t, std::map<uint32_t, double>> of_ranks;
  std::map<uint32_t, std::map<uint32_t, double>> times;
  for (size_t m = 0; m < microbatches_.size(); ++m) {
    const auto& [mini_batch, rank, slot, begin, end, ranks] = microbatches_[m];
    const double value = sums_[load][m];
    spread.largest = std::max(spread.largest, value);
    spread.all += value;
    of_ranks[mini_batch][rank] += value;
    if (phase != phases_.end()) times[mini_batch][rank] += phase->costs[m];
  }
  const auto greatest = [](const std::map<uint32_t, double>& values) {
    return std::ranges::max_element(values, {}, [](const auto& entry) { return entry.second; })
        ->second;
  };
  for (const auto& [mini_batch, values] : of_ranks) spread.busiest_ranks += greatest(values);
  if (phase == phases_.end()) return spread;
  if (in_lockstep) {
    const std::vector<double> slowest = MostOfSlots(phase->costs);
    for (size_t m = 0; m < slowest.size(); ++m) {
      if (microbatches_[m].rank == 0) spread.separate_time += slowest[m];
    }
  } else {
    for (const auto& [mini_batch, values] : times) spread.separate_time += greatest(values);
  }
  return spread;
}

absl::Status LoadCosts::CheckMetrics(double step_time) const {
  const std::vector<LoadMetrics>& stated = pass_.plan.metrics.loads;
  if (stated.size() != sums_.size()) {
    return Violation(Field(pass_, "metrics.loads"), " has ", stated.size(),
                     " entries, but there should be ", sums_.size());
  }
  const auto ranks = static_cast<double>(pass_.demands.data_parallel);
  const auto count = static_cast<double>(microbatches_.size());
  for (size_t load = 0; load < stated.size(); ++load) {
    const std::string where = absl::StrCat("loads[", load, "].");
    if (stated[load].load != pass_.loads.all()[load].name) {
      return Violation(Field(pass_, "metrics."), where, "load is \"", stated[load].load,
                       "\", but the manifest says \"", pass_.loads.all()[load].name, "\"");
    }
    const Spread spread = SpreadOf(load);
    const double mean = spread.all / count;
    const double imbalance = spread.all == 0 ? 1 : spread.busiest_ranks / (spread.all / ranks);
    for (const absl::Status& status :
         {CheckNear(pass_, where + "largest", stated[load].largest, spread.largest,
                    kTolerance * spread.largest),
          CheckNear(pass_, where + "mean", stated[load].mean, mean, kTolerance * mean),
          CheckNear(pass_, where + "rank_imbalance", stated[load].rank_imbalance, imbalance,
                    kTolerance * ranks),
          CheckNear(pass_, where + "separate_time", stated[load].separate_time,
                    spread.separate_time, kTolerance * step_time)}) {
      if (!status.ok()) return status;
    }
  }
  return absl::OkStatus();
}

}  // namespace batchplan::checker
