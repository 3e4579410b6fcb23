#include "tests/server/checker/handmade_loads.h"

#include <algorithm>
#include <cstddef>
#include <map>

#include "tests/support/owned_loads.h"

namespace batchplan::testing {
namespace {

// The model's entry for a load; without costs if it has none.
LoadCost CostOfLoad(const CostModel& model, absl::string_view name) {
  for (const LoadCost& cost : model.loads) {
    if (cost.load == name) return cost;
  }
  return {};
}

const LoadItems& ItemsOf(const Manifest& manifest, absl::string_view name) {
  return *std::ranges::find(manifest.items, name, &LoadItems::load);
}

double Greatest(const ByRankAndSlot& values, size_t slot) {
  double greatest = 0;
  for (const std::vector<double>& of_rank : values) greatest = std::max(greatest, of_rank[slot]);
  return greatest;
}

double BusiestRank(const ByRankAndSlot& values) {
  double busiest = 0;
  for (const std::vector<double>& of_rank : values) {
    double sum = 0;
    for (const double value : of_rank) sum += value;
    busiest = std::max(busiest, sum);
  }
  return busiest;
}

}  // namespace

std::vector<LoadRanks> DealItems(const Manifest& manifest, const CostModel& model,
                                 const std::vector<SlotsOfRanks>& mini_batches) {
  std::vector<LoadRanks> all;
  for (const LoadCost& cost : model.loads) {
    if (!cost.dealt) continue;
    const LoadItems& items = ItemsOf(manifest, cost.load);
    LoadRanks& dealt = all.emplace_back();
    dealt.load = cost.load;
    dealt.ranks.assign(items.values.size(), 0);
    for (const SlotsOfRanks& ranks : mini_batches) {
      for (size_t slot = 0; slot < ranks.front().size(); ++slot) {
        std::vector<size_t> numbers;
        std::vector<double> values;
        for (size_t i = 0; i < items.values.size(); ++i) {
          for (const auto& slots : ranks) {
            if (std::ranges::find(slots[slot], items.sequences[i]) == slots[slot].end()) continue;
            numbers.push_back(i);
            values.push_back(items.values[i]);
          }
        }
        const std::vector<uint32_t> rank_of =
            DealNaively(values, static_cast<uint32_t>(ranks.size()));
        for (size_t i = 0; i < numbers.size(); ++i) dealt.ranks[numbers[i]] = rank_of[i];
      }
    }
  }
  return all;
}

HandmadeLoads::HandmadeLoads(const Manifest& manifest, const PlanOptions& options)
    : manifest_(manifest), options_(options), busiest_(manifest.loads.size(), 0) {
  for (const Load& load : manifest.loads) metrics_.push_back({.load = std::string(load.name)});
}

ByRankAndSlot HandmadeLoads::SumsOf(const Load& load, const SlotsOfRanks& mini_batch,
                                    const std::vector<LoadRanks>& item_ranks) const {
  ByRankAndSlot sums(mini_batch.size(), std::vector<double>(mini_batch.front().size(), 0));
  const bool dealt = CostOfLoad(options_.cost_model, load.name).dealt;
  const std::vector<double> values = LoadOfSequences(manifest_, load.name);
  for (size_t rank = 0; rank < mini_batch.size(); ++rank) {
    for (size_t slot = 0; slot < mini_batch[rank].size(); ++slot) {
      for (const uint32_t sequence : mini_batch[rank][slot]) {
        if (!dealt) {
          sums[rank][slot] += values[sequence];
          continue;
        }
        const LoadItems& items = ItemsOf(manifest_, load.name);
        const LoadRanks& ranks = *std::ranges::find(item_ranks, load.name, &LoadRanks::load);
        for (size_t i = 0; i < items.values.size(); ++i) {
          if (items.sequences[i] == sequence) sums[ranks.ranks[i]][slot] += items.values[i];
        }
      }
    }
  }
  return sums;
}

void HandmadeLoads::Add(const SlotsOfRanks& mini_batch, const std::vector<LoadRanks>& item_ranks) {
  const size_t slots = mini_batch.front().size();
  ranks_ = static_cast<double>(mini_batch.size());
  microbatches_ += ranks_ * static_cast<double>(slots);
  in_rows_.assign(mini_batch.size(), std::vector<double>(slots, 0));
  phases_.clear();
  for (size_t number = 0; number < metrics_.size(); ++number) {
    const Load& load = manifest_.loads[number];
    const LoadCost cost = CostOfLoad(options_.cost_model, load.name);
    const ByRankAndSlot sums = SumsOf(load, mini_batch, item_ranks);
    ByRankAndSlot costs = sums;
    for (size_t rank = 0; rank < sums.size(); ++rank) {
      for (size_t slot = 0; slot < slots; ++slot) {
        const double own = cost.dealt ? Greatest(sums, slot) : sums[rank][slot];
        costs[rank][slot] = own * cost.per_unit / options_.topology.context_parallel;
        metrics_[number].largest = std::max(metrics_[number].largest, sums[rank][slot]);
        metrics_[number].mean += sums[rank][slot];
        if (!cost.has_phase()) in_rows_[rank][slot] += costs[rank][slot];
      }
    }
    busiest_[number] += BusiestRank(sums);
    if (!cost.has_phase()) continue;
    if (options_.synchronization == Synchronization::kLockstep) {
      for (size_t slot = 0; slot < slots; ++slot) {
        metrics_[number].separate_time += Greatest(costs, slot);
      }
    } else {
      metrics_[number].separate_time += BusiestRank(costs);
    }
    phases_.push_back({.dealt = cost.dealt, .costs = costs});
  }
}

double HandmadeLoads::CostOf(uint32_t sequence) const {
  double cost = 0;
  for (const LoadCost& load : options_.cost_model.loads) {
    cost += load.per_unit * LoadOfSequences(manifest_, load.load)[sequence];
  }
  return cost / options_.topology.context_parallel;
}

std::vector<LoadMetrics> HandmadeLoads::Metrics() const {
  std::vector<LoadMetrics> metrics = metrics_;
  for (size_t number = 0; number < metrics.size(); ++number) {
    const double all = metrics[number].mean;
    metrics[number].rank_imbalance = all == 0 ? 1 : busiest_[number] * ranks_ / all;
    metrics[number].mean = all / microbatches_;
  }
  return metrics;
}

}  // namespace batchplan::testing
