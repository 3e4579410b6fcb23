#include "server/planner/measure_loads.h"

#include <algorithm>
#include <string>

#include "server/planner/pass/slot_loads.h"
#include "server/planner/pass/step_time.h"

namespace batchplan {

SequenceLists MicrobatchesOf(const PassPlan& plan, size_t begin, size_t end) {
  SequenceLists microbatches;
  microbatches.Reserve(end - begin, plan.microbatch_offsets[end] - plan.microbatch_offsets[begin]);
  for (size_t m = begin; m < end; ++m) {
    for (uint32_t i = plan.microbatch_offsets[m]; i < plan.microbatch_offsets[m + 1]; ++i) {
      microbatches.Push(SequenceIndex(plan.sequence_index[i]));
    }
    microbatches.Close();
  }
  return microbatches;
}

LoadMeasure::LoadMeasure(const Pass& pass) : pass_(pass), sums_(pass.loads().given().size()) {}

std::vector<double> LoadMeasure::ValuesOf(size_t load, const SequenceLists& microbatches,
                                          uint32_t slots) const {
  std::vector<double> values(microbatches.size(), 0);
  const bool dealt = std::ranges::any_of(pass_.loads().phases(), [&](const LoadPhase& phase) {
    return phase.load == load && phase.dealt;
  });
  if (!dealt) {
    for (size_t m = 0; m < values.size(); ++m) {
      for (const SequenceIndex sequence : microbatches[m]) {
        values[m] += pass_.loads().given().Of(load, sequence);
      }
    }
    return values;
  }
  for (size_t slot = 0; slot < slots; ++slot) {
    const DealtItems items = DealItems(pass_.loads().given(), load,
                                       SequencesOfSlot(microbatches, slots, slot), pass_.ranks());
    for (size_t rank = 0; rank < items.sums.size(); ++rank) {
      values[rank * slots + slot] = items.sums[rank];
    }
  }
  return values;
}

double LoadMeasure::TimeOf(const LoadPhase& phase, std::span<const Cost> costs,
                           uint32_t slots) const {
  Cost time = 0;
  if (phase.dealt) {
    // All ranks have the same time.
    for (size_t slot = 0; slot < slots; ++slot) time += costs[slot];
  } else {
    time = pass_.clock().Of(TimedRanks(costs, pass_.ranks())).time;
  }
  return pass_.cost().ToUnits(time);
}

void LoadMeasure::Add(const SequenceLists& microbatches, uint32_t slots,
                      std::span<const std::vector<Cost>> phases) {
  microbatches_ += microbatches.size();
  for (size_t load = 0; load < sums_.size(); ++load) {
    Sums& sums = sums_[load];
    const std::vector<double> values = ValuesOf(load, microbatches, slots);
    double busiest = 0;
    for (size_t first = 0; first < values.size(); first += slots) {
      double rank = 0;
      for (size_t m = first; m < first + slots; ++m) {
        sums.largest = std::max(sums.largest, values[m]);
        rank += values[m];
      }
      busiest = std::max(busiest, rank);
      sums.all += rank;
    }
    sums.busiest_ranks += busiest;
  }
  for (size_t i = 0; i < phases.size(); ++i) {
    const LoadPhase& phase = pass_.loads().phases()[i];
    sums_[phase.load].separate_time += TimeOf(phase, phases[i], slots);
  }
}

double LoadMeasure::AddedUp(size_t load) const {
  for (const LoadCost& cost : pass_.cost_model().loads) {
    const bool adds_up =
        cost.separate && !cost.dealt && pass_.synchronization() == Synchronization::kAccumulated;
    if (adds_up && pass_.loads().given().name(load) == cost.load) {
      return cost.per_unit / pass_.topology().context_parallel * sums_[load].busiest_ranks;
    }
  }
  return 0;
}

std::vector<LoadMetrics> LoadMeasure::Metrics() const {
  std::vector<LoadMetrics> metrics;
  metrics.reserve(sums_.size());
  for (size_t load = 0; load < sums_.size(); ++load) {
    const Sums& sums = sums_[load];
    metrics.push_back(
        {.load = std::string(pass_.loads().given().name(load)),
         .largest = sums.largest,
         .mean = sums.all / static_cast<double>(microbatches_),
         .rank_imbalance = sums.all == 0 ? 1 : sums.busiest_ranks / sums.all * pass_.ranks(),
         .separate_time = sums.separate_time + AddedUp(load)});
  }
  return metrics;
}

std::vector<LoadRanks> ItemRanksOf(const Pass& pass, const PassPlan& plan) {
  std::vector<LoadRanks> all;
  for (const LoadPhase& phase : pass.loads().phases()) {
    if (!phase.dealt) continue;
    LoadRanks& dealt = all.emplace_back();
    dealt.load = std::string(pass.loads().given().name(phase.load));
    dealt.ranks.assign(pass.loads().given().item_count(phase.load), 0);
    size_t begin = 0;
    for (const uint32_t slots : plan.microbatches_per_rank) {
      const size_t end = begin + size_t{slots} * pass.ranks();
      const SequenceLists microbatches = MicrobatchesOf(plan, begin, end);
      for (size_t slot = 0; slot < slots; ++slot) {
        const DealtItems items =
            DealItems(pass.loads().given(), phase.load, SequencesOfSlot(microbatches, slots, slot),
                      pass.ranks());
        for (size_t i = 0; i < items.items.size(); ++i) {
          dealt.ranks[items.items[i]] = items.ranks[i];
        }
      }
      begin = end;
    }
  }
  return all;
}

}  // namespace batchplan
