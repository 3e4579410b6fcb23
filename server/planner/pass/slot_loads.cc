#include "server/planner/pass/slot_loads.h"

#include <algorithm>
#include <utility>

namespace batchplan {
namespace {

double SumOf(const Loads& loads, size_t load, std::span<const SequenceIndex> sequences) {
  const std::span<const double> values = loads.values(load);
  double sum = 0;
  for (const SequenceIndex sequence : sequences) sum += values[sequence.value()];
  return sum;
}

}  // namespace

DealtItems DealItems(const Loads& loads, size_t load, std::span<const SequenceIndex> sequences,
                     uint32_t ranks) {
  DealtItems dealt;
  dealt.sums.assign(ranks, 0);
  std::vector<std::pair<size_t, double>> items;
  for (const SequenceIndex sequence : sequences) {
    size_t item = loads.FirstItem(load, sequence);
    for (const double value : loads.ItemsOf(load, sequence)) items.emplace_back(item++, value);
  }
  std::ranges::sort(items);
  std::vector<double> values;
  values.reserve(items.size());
  dealt.items.reserve(items.size());
  for (const auto& [item, value] : items) {
    dealt.items.push_back(item);
    values.push_back(value);
  }
  dealt.ranks = Deal(values, dealt.sums);
  return dealt;
}

std::vector<SequenceIndex> SequencesOfSlot(const SequenceLists& microbatches, size_t slots,
                                           size_t slot) {
  std::vector<SequenceIndex> sequences;
  for (size_t m = slot; m < microbatches.size(); m += slots) {
    sequences.insert(sequences.end(), microbatches[m].begin(), microbatches[m].end());
  }
  return sequences;
}

bool KeepsLimits(const Pass& pass, const SequenceLists& microbatches, size_t slots) {
  for (size_t m = 0; m < microbatches.size() && pass.row_multiple() > 1; ++m) {
    if (microbatches[m].size() % pass.row_multiple() != 0) return false;
  }
  if (pass.rank_multiple() != pass.row_multiple()) {
    for (size_t first = 0; first < microbatches.size(); first += slots) {
      size_t of_rank = 0;
      for (size_t m = first; m < first + slots; ++m) of_rank += microbatches[m].size();
      if (of_rank % pass.rank_multiple() != 0) return false;
    }
  }
  for (const LoadBudget& limit : pass.loads().limits()) {
    if (limit.dealt) {
      for (size_t slot = 0; slot < slots; ++slot) {
        const std::vector<SequenceIndex> sequences = SequencesOfSlot(microbatches, slots, slot);
        const DealtItems dealt =
            DealItems(pass.loads().given(), limit.load, sequences, pass.ranks());
        if (std::ranges::max(dealt.sums) > limit.most) return false;
      }
      continue;
    }
    for (size_t m = 0; m < microbatches.size(); ++m) {
      const std::span<const SequenceIndex> own = microbatches[m];
      if (own.size() == 1 && pass.RunsAlone(own.front())) continue;
      if (SumOf(pass.loads().given(), limit.load, own) > limit.most) return false;
    }
  }
  return true;
}

std::vector<std::vector<Cost>> PhaseCosts(const Pass& pass, const SequenceLists& microbatches,
                                          size_t slots) {
  std::vector<std::vector<Cost>> costs;
  costs.reserve(pass.loads().phases().size());
  const auto cost_of = [&](const LoadPhase& phase, double sum) {
    return static_cast<Cost>(pass.cost().FromUnits(phase.per_unit * sum));
  };
  for (const LoadPhase& phase : pass.loads().phases()) {
    std::vector<Cost>& own = costs.emplace_back(microbatches.size(), 0);
    if (!phase.dealt) {
      for (size_t m = 0; m < own.size(); ++m) {
        own[m] = cost_of(phase, SumOf(pass.loads().given(), phase.load, microbatches[m]));
      }
      continue;
    }
    for (size_t slot = 0; slot < slots; ++slot) {
      const std::vector<SequenceIndex> sequences = SequencesOfSlot(microbatches, slots, slot);
      const DealtItems dealt = DealItems(pass.loads().given(), phase.load, sequences, pass.ranks());
      const Cost most = cost_of(phase, std::ranges::max(dealt.sums));
      for (size_t m = slot; m < own.size(); m += slots) own[m] = most;
    }
  }
  return costs;
}

}  // namespace batchplan
