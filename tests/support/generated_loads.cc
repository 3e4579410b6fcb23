// Random loads.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tests/support/generated_request.h"
#include "tests/support/generators.h"
#include "tests/support/owned_loads.h"

namespace batchplan::testing {
namespace {

// A value of a load for a sequence of that length or for one of its items.
double AnyValue(RandomStream& random, double unit, uint32_t length) {
  const uint64_t value = random.Chance(50) ? length : random.Between(0, 12);
  return static_cast<double>(value) * unit;
}

// In some loads most sequences have nothing, as most have no images.
OwnedLoad AnyLoad(RandomStream& random, const std::string& name,
                  const std::vector<uint32_t>& lengths) {
  OwnedLoad load = {.name = name, .values = {}, .has_items = random.Chance(50)};
  const auto unit = random.OneOf<double>({1, 1, 0.1, 1000});
  const auto common = random.OneOf<uint32_t>({15, 60, 100});
  for (uint32_t i = 0; i < lengths.size(); ++i) {
    const bool has_some = random.Chance(common);
    if (!load.has_items) {
      load.values.push_back(has_some ? AnyValue(random, unit, lengths[i]) : 0);
      continue;
    }
    for (uint64_t items = has_some ? random.Between(1, 4) : 0; items > 0; --items) {
      load.values.push_back(AnyValue(random, unit, lengths[i]));
      load.sequences.push_back(i);
    }
  }
  return load;
}

bool SomePassIsPadded(const PlanOptions& options) {
  return std::ranges::any_of(
      options.passes, [](const PassOptions& pass) { return pass.layout == Layout::kPadded; });
}

// Gives some loads costs; with pipelines, none of them has a phase.
void CostLoads(RandomStream& random, GeneratedRequest& request) {
  for (const OwnedLoad& load : request.loads) {
    if (!random.Chance(60)) continue;
    LoadCost& cost = request.options.cost_model.loads.emplace_back();
    cost = {.load = load.name, .per_unit = random.OneOf<double>({0.3, 1, 20, 0})};
    if (request.options.topology.pipeline_parallel > 1) continue;
    cost.dealt = load.has_items && random.Chance(50);
    cost.separate = random.Chance(40);
  }
}

// The most that one micro-batch must hold: of a sequence, of a group that stays together, or of the
// largest item if the load is dealt.
double Inseparable(const GeneratedRequest& request, const OwnedLoad& load, bool dealt) {
  if (dealt) return load.values.empty() ? 0 : std::ranges::max(load.values);
  const bool groups_are_whole =
      request.options.mini_batches.groups == GroupPolicy::kSameMicrobatch &&
      !request.group_ids.empty();
  std::map<uint32_t, double> sums;
  const std::vector<double> values = LoadOfSequences(request.manifest(), load.name);
  double most = 0;
  for (uint32_t i = 0; i < values.size(); ++i) {
    double& sum = sums[groups_are_whole ? request.group_ids[i] : i];
    sum += values[i];
    most = std::max(most, sum);
  }
  return most;
}

// Limits some loads. If overlong sequences may be dropped or run alone, limits below the largest
// value are frequent. Small requests limit no dealt load, because Satisfiable does not know what a
// slot can hold of it.
void LimitLoads(RandomStream& random, GeneratedRequest& request, PassOptions& pass) {
  const OverlongPolicy overlong = request.options.overlong;
  const bool may_exceed = overlong == OverlongPolicy::kDrop || overlong == OverlongPolicy::kAlone;
  for (const OwnedLoad& load : request.loads) {
    if (!random.Chance(50)) continue;
    const bool dealt =
        std::ranges::any_of(request.options.cost_model.loads,
                            [&](const LoadCost& c) { return c.load == load.name && c.dealt; });
    if (dealt && request.lengths.size() <= kMaxSmallSequences) continue;
    const double most = Inseparable(request, load, dealt);
    const double factor = random.Chance(may_exceed ? 30 : 3)
                              ? random.OneOf<double>({0.5, 0.8})
                              : random.OneOf<double>({1, 1, 1.3, 2, 5});
    pass.limits.push_back({.load = load.name, .max_per_microbatch = most == 0 ? 1 : most * factor});
  }
}

// Makes one load the only cost.
void CostAnyModel(RandomStream& random, GeneratedRequest& request) {
  request.loads = {{.name = "cost", .values = {}}};
  for (const uint32_t length : request.lengths) {
    request.loads[0].values.push_back(length + static_cast<double>(random.Between(0, 1000)));
  }
  request.options.cost_model = {.per_token = 0, .per_token_squared = 0};
  request.options.cost_model.loads = {{.load = "cost", .per_unit = 1}};
}

void DrawKinds(RandomStream& random, GeneratedRequest& request) {
  for (size_t i = 0; i < request.lengths.size(); ++i) {
    request.kinds.push_back(static_cast<uint32_t>(random.Between(0, 2)));
  }
}

KindsPerSlot AnyRule(RandomStream& random) {
  return random.OneOf<KindsPerSlot>(
      {KindsPerSlot::kAny, KindsPerSlot::kTogether, KindsPerSlot::kAlike});
}

}  // namespace

void AddLoads(uint64_t seed, GeneratedRequest* request) {
  RandomStream random(seed ^ 0x4D4D4D4D);
  PlanOptions& options = request->options;
  if (random.Chance(20)) DrawKinds(random, *request);
  const bool has_costs = !options.topology.dynamic_context && !SomePassIsPadded(options);
  if (has_costs && random.Chance(15)) {
    CostAnyModel(random, *request);
  } else {
    const auto loads = random.OneOf<uint32_t>({1, 1, 2, 3});
    for (uint32_t i = 0; i < loads; ++i) {
      request->loads.push_back(AnyLoad(random, absl::StrCat("load ", i), request->lengths));
    }
    if (has_costs) CostLoads(random, *request);
  }
  if (options.topology.dynamic_context) return;
  for (PassOptions& pass : options.passes) {
    if (random.Chance(60)) LimitLoads(random, *request, pass);
    // Satisfiable does not know kinds.
    if (request->kinds.empty() || request->lengths.size() <= kMaxSmallSequences) continue;
    pass.kinds_per_slot = AnyRule(random);
  }
}

void AddKinds(uint64_t seed, GeneratedRequest* request) {
  RandomStream random(seed ^ 0x4B4B4B4B);
  DrawKinds(random, *request);
  if (request->options.topology.dynamic_context) return;
  for (PassOptions& pass : request->options.passes) pass.kinds_per_slot = AnyRule(random);
}

void AddMultiples(uint64_t seed, GeneratedRequest* request) {
  RandomStream random(seed ^ 0x6D756C74);
  for (PassOptions& pass : request->options.passes) {
    pass.sequence_count_multiple = random.OneOf<uint32_t>({1, 2, 2, 3, 4});
  }
}

std::string GeneratedRequest::DescribeLoads() const {
  std::string text;
  for (const OwnedLoad& load : loads) {
    absl::StrAppend(&text, "; ", load.name, " [", absl::StrJoin(load.values, ","), "]");
    if (!load.has_items) continue;
    absl::StrAppend(&text, " of the items of [", absl::StrJoin(load.sequences, ","), "]");
  }
  for (const LoadCost& cost : options.cost_model.loads) {
    absl::StrAppend(&text, "; ", cost.load, " costs ", cost.per_unit,
                    cost.separate ? " separate" : "", cost.dealt ? " dealt" : "");
  }
  if (!kinds.empty()) absl::StrAppend(&text, "; kinds [", absl::StrJoin(kinds, ","), "]");
  return text;
}

}  // namespace batchplan::testing
