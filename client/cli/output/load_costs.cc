#include "client/cli/output/load_costs.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

namespace batchplan::cli {
namespace {

// The load `name` of each sequence: the caller's values or sums of its items. Empty if the manifest
// has no such load.
std::vector<double> LoadOf(const v1::Manifest& manifest, const std::string& name) {
  for (const v1::LoadItems& items : manifest.items()) {
    if (items.load() != name) continue;
    std::vector<double> sums(static_cast<size_t>(manifest.lengths_size()), 0);
    for (int i = 0; i < items.values_size(); ++i) sums[items.sequences(i)] += items.values(i);
    return sums;
  }
  for (const v1::Load& load : manifest.loads()) {
    if (load.name() == name) return {load.values().begin(), load.values().end()};
  }
  return {};
}

// For each micro-batch, the largest amount of the dealt load that a rank of its slot has.
absl::StatusOr<std::vector<double>> DealtLoads(const v1::Manifest& manifest,
                                               const std::string& name, const v1::PassPlan& plan,
                                               const std::vector<Microbatch>& microbatches) {
  // Where each sequence is (mini-batch and slot), and below, what each rank of each slot has.
  using Slot = std::pair<uint32_t, uint32_t>;
  const Slot nowhere(UINT32_MAX, UINT32_MAX);
  std::vector<Slot> slots(static_cast<size_t>(manifest.lengths_size()), nowhere);
  for (const Microbatch& microbatch : microbatches) {
    for (uint32_t i = microbatch.begin; i < microbatch.end; ++i) {
      slots[plan.sequence_index(static_cast<int>(i))] = {microbatch.mini_batch, microbatch.slot};
    }
  }
  std::map<Slot, std::map<uint32_t, double>> sums;
  for (const v1::LoadItems& items : manifest.items()) {
    if (items.load() != name) continue;
    const auto dealt = std::ranges::find(plan.item_ranks(), name, &v1::LoadRanks::load);
    const int ranks = dealt == plan.item_ranks().end() ? 0 : dealt->ranks_size();
    if (ranks != items.values_size()) {
      return absl::InvalidArgumentError(absl::StrCat("the plan has ", ranks, " item_ranks of \"",
                                                     absl::Utf8SafeCEscape(name), "\" for ",
                                                     items.values_size(), " items"));
    }
    for (int i = 0; i < ranks; ++i) {
      const Slot& slot = slots[items.sequences(i)];
      if (slot != nowhere) sums[slot][dealt->ranks(i)] += items.values(i);
    }
  }
  std::vector<double> most;
  most.reserve(microbatches.size());
  for (const Microbatch& microbatch : microbatches) {
    double largest = 0;
    for (const auto& [rank, sum] : sums[{microbatch.mini_batch, microbatch.slot}]) {
      largest = std::max(largest, sum);
    }
    most.push_back(largest);
  }
  return most;
}

}  // namespace

absl::Status AddLoadCosts(const v1::Manifest& manifest, const v1::CostModel& model,
                          const v1::PassPlan& plan, std::vector<Microbatch>* microbatches) {
  for (const uint32_t sequence : plan.sequence_index()) {
    if (sequence < static_cast<uint32_t>(manifest.lengths_size())) continue;
    return absl::InvalidArgumentError(absl::StrCat("the plan has sequence ", sequence,
                                                   ", but the request ", manifest.lengths_size()));
  }
  for (const v1::LoadCost& cost : model.loads()) {
    const std::vector<double> values = LoadOf(manifest, cost.load());
    if (values.empty()) continue;
    std::vector<double> dealt;
    if (cost.dealt()) {
      absl::StatusOr<std::vector<double>> most =
          DealtLoads(manifest, cost.load(), plan, *microbatches);
      if (!most.ok()) return most.status();
      dealt = *std::move(most);
    }
    for (size_t m = 0; m < microbatches->size(); ++m) {
      Microbatch& microbatch = (*microbatches)[m];
      double units = 0;
      if (cost.dealt()) {
        units = dealt[m];
      } else {
        for (uint32_t i = microbatch.begin; i < microbatch.end; ++i) {
          units += values[plan.sequence_index(static_cast<int>(i))];
        }
      }
      const double paid = cost.per_unit() * units / microbatch.context_parallel;
      if (cost.dealt()) {
        microbatch.dealt_costs.push_back(paid);
      } else if (cost.separate()) {
        microbatch.separate_costs.push_back(paid);
      } else {
        microbatch.load_cost += paid;
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace batchplan::cli
