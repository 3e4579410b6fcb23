#include "server/checker/request_loads.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <set>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "server/checker/violation.h"

namespace batchplan::checker {
namespace {

constexpr uint32_t kNotTaken = UINT32_MAX;

// Checks that the values, found at `where`, can be those of a load.
absl::Status CheckValues(absl::string_view where, std::span<const double> values) {
  double sum = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    sum += values[i];
    // In this form NaN fails the check.
    if (values[i] >= 0 && std::isfinite(sum)) continue;
    return Violation(where, "[", i, "] is ", values[i], ", and the values up to it add up to ",
                     sum);
  }
  return absl::OkStatus();
}

// Checks that requests with groups that differ in size have no options of loads.
absl::Status CheckLoadOptions(const PlanOptions& options) {
  const bool differ = options.topology.dynamic_context.has_value();
  const bool cost = !options.cost_model.loads.empty();
  if (differ && cost) {
    return Violation("cost_model.loads is set, but groups of ranks are to differ");
  }
  for (size_t i = 0; i < options.passes.size(); ++i) {
    const PassOptions& pass = options.passes[i];
    if (differ && (!pass.limits.empty() || pass.kinds_per_slot != KindsPerSlot::kAny)) {
      return Violation("passes[", i,
                       "] limits loads or kinds, but groups of ranks are to "
                       "differ");
    }
    if (cost && pass.layout == Layout::kPadded) {
      return Violation("cost_model.loads is set, but passes[", i, "] is padded");
    }
  }
  return absl::OkStatus();
}

}  // namespace

size_t RequestLoads::NumberOf(absl::string_view name) const {
  return static_cast<size_t>(std::ranges::find(all_, name, &RequestLoad::name) - all_.begin());
}

absl::Status RequestLoads::ReadLoads(const Manifest& manifest) {
  if (manifest.loads.size() > kMaxLoads) {
    return Violation("manifest.loads has ", manifest.loads.size(), " entries, above ", kMaxLoads);
  }
  for (size_t i = 0; i < manifest.loads.size(); ++i) {
    const auto& [name, values] = manifest.loads[i];
    const std::string where = absl::StrCat("manifest.loads[", i, "]");
    if (name.empty() || name.size() > kMaxLoadName) {
      return Violation(where, ".name has ", name.size(), " bytes, outside 1 .. ", kMaxLoadName);
    }
    if (NumberOf(name) < i) return Violation(where, ".name is that of an earlier load");
    if (absl::Status status = CheckValues(where + ".values", values); !status.ok()) return status;
    all_.push_back({.name = name, .values = {values.begin(), values.end()}});
  }
  return absl::OkStatus();
}

absl::Status RequestLoads::ReadItems(const Manifest& manifest) {
  const size_t sequences = manifest.lengths.size();
  for (size_t k = 0; k < manifest.items.size(); ++k) {
    const LoadItems& items = manifest.items[k];
    const std::string where = absl::StrCat("manifest.items[", k, "]");
    const size_t number = NumberOf(items.load);
    if (number == all_.size() || all_[number].has_items) {
      return Violation(where, ".load is of ", number == all_.size() ? "no load" : "a load again");
    }
    RequestLoad& load = all_[number];
    if (!load.values.empty()) {
      return Violation(where, " has the items of manifest.loads[", number,
                       "], which has values of its own");
    }
    if (items.sequences.size() != items.values.size()) {
      return Violation(where, ".sequences has ", items.sequences.size(), " entries, but values ",
                       items.values.size());
    }
    if (absl::Status status = CheckValues(where + ".values", items.values); !status.ok()) {
      return status;
    }
    load.has_items = true;
    load.item_count = items.values.size();
    load.values.assign(sequences, 0);
    for (size_t i = 0; i < items.values.size(); ++i) {
      const uint32_t sequence = items.sequences[i];
      if (sequence >= sequences || (i > 0 && sequence < items.sequences[i - 1])) {
        return Violation(where, ".sequences[", i, "] is ", sequence,
                         ", out of range or below the one before it");
      }
      load.items.push_back({.number = i, .sequence = sequence, .value = items.values[i]});
      load.values[sequence] += items.values[i];
    }
  }
  for (size_t i = 0; i < all_.size(); ++i) {
    if (all_[i].values.size() == sequences) continue;
    return Violation("manifest.loads[", i, "].values has ", all_[i].values.size(),
                     " entries, but there are ", sequences, " sequences");
  }
  return absl::OkStatus();
}

absl::Status RequestLoads::ReadCosts(const PlanOptions& options) {
  std::vector<bool> seen(all_.size(), false);
  for (size_t i = 0; i < options.cost_model.loads.size(); ++i) {
    const LoadCost& cost = options.cost_model.loads[i];
    const size_t number = NumberOf(cost.load);
    if (number == all_.size() || seen[number]) {
      return Violation("cost_model.loads[", i, "] is of ",
                       number == all_.size() ? "no load" : "a load again");
    }
    seen[number] = true;
    RequestLoad& load = all_[number];
    load.per_unit = cost.per_unit;
    load.dealt = cost.dealt;
    load.has_phase = cost.separate || cost.dealt;
    if (load.dealt && !load.has_items) {
      return Violation("cost_model.loads[", i, "] is dealt, but the load has no items");
    }
    if (load.has_phase && options.topology.pipeline_parallel > 1) {
      return Violation("cost_model.loads[", i, "] has a phase of its own, but pipelines have none");
    }
    if (load.dealt) dealt_.push_back(number);
  }
  return absl::OkStatus();
}

absl::Status RequestLoads::ReadLimits(const PlanOptions& options) {
  for (size_t i = 0; i < options.passes.size(); ++i) {
    std::vector<RequestLimit>& limits = limits_.emplace_back();
    for (const auto& [name, most] : options.passes[i].limits) {
      const size_t number = NumberOf(name);
      if (number == all_.size() || !(most > 0 && std::isfinite(most)) ||
          std::ranges::find(limits, number, &RequestLimit::load) != limits.end()) {
        return Violation("passes[", i, "].limits[", limits.size(),
                         "] is of no load, of one again, or ", most);
      }
      limits.push_back({.load = number, .most = most});
    }
  }
  return absl::OkStatus();
}

void RequestLoads::FindInseparable() {
  inseparable_.clear();
  for (const RequestLoad& load : all_) {
    std::vector<double>& own = inseparable_.emplace_back(load.values);
    if (!load.dealt) continue;
    std::vector<std::vector<double>> items(own.size());
    for (const LoadItem& item : load.items) items[item.sequence].push_back(item.value);
    for (size_t i = 0; i < own.size(); ++i) {
      std::ranges::sort(items[i], std::greater<>());
      if (items[i].empty()) continue;
      // Items go to empty ranks as long as there are any.
      std::multiset<double> ranks;
      for (size_t k = 0; k < std::min<size_t>(data_parallel_, items[i].size()); ++k)
        ranks.insert(0);
      for (const double item : items[i]) ranks.insert(ranks.extract(ranks.begin()).value() + item);
      own[i] = *ranks.rbegin();
    }
  }
}

absl::StatusOr<RequestLoads> RequestLoads::Create(const Manifest& manifest,
                                                  const PlanOptions& options) {
  if (!manifest.kinds.empty() && manifest.kinds.size() != manifest.lengths.size()) {
    return Violation("manifest.kinds has ", manifest.kinds.size(), " entries, but there are ",
                     manifest.lengths.size(), " sequences");
  }
  RequestLoads loads;
  if (absl::Status status = CheckLoadOptions(options); !status.ok()) return status;
  if (absl::Status status = loads.ReadLoads(manifest); !status.ok()) return status;
  if (absl::Status status = loads.ReadItems(manifest); !status.ok()) return status;
  if (absl::Status status = loads.ReadCosts(options); !status.ok()) return status;
  if (absl::Status status = loads.ReadLimits(options); !status.ok()) return status;
  // At least one: there is no plan for no ranks.
  loads.data_parallel_ = std::max(options.topology.data_parallel, 1u);
  loads.FindInseparable();
  return loads;
}

void RequestLoads::Take(std::span<const uint32_t> positions) {
  for (RequestLoad& load : all_) {
    std::vector<uint32_t> place(load.values.size(), kNotTaken);
    std::vector<double> values;
    values.reserve(positions.size());
    for (const uint32_t position : positions) {
      place[position] = static_cast<uint32_t>(values.size());
      values.push_back(load.values[position]);
    }
    load.values = std::move(values);
    std::erase_if(load.items,
                  [&](const LoadItem& item) { return place[item.sequence] == kNotTaken; });
    for (LoadItem& item : load.items) item.sequence = place[item.sequence];
  }
  FindInseparable();
}

bool RequestLoads::Exceeds(const RequestLimit& limit, uint32_t sequence) const {
  return limit.IsExceededBy(inseparable_[limit.load][sequence]);
}

bool RequestLoads::ExceedsDealt(uint32_t sequence) const {
  for (const std::vector<RequestLimit>& limits : limits_) {
    for (const RequestLimit& limit : limits) {
      if (all_[limit.load].dealt && Exceeds(limit, sequence)) return true;
    }
  }
  return false;
}

bool RequestLoads::ExceedsOne(size_t pass, uint32_t sequence) const {
  return std::ranges::any_of(LimitsOf(pass),
                             [&](const RequestLimit& limit) { return Exceeds(limit, sequence); });
}

bool RequestLoads::ExceedsOne(uint32_t sequence) const {
  for (size_t pass = 0; pass < limits_.size(); ++pass) {
    if (ExceedsOne(pass, sequence)) return true;
  }
  return false;
}

double RequestLoads::CostOf(uint32_t sequence, double ranks) const {
  double cost = 0;
  for (const RequestLoad& load : all_) cost += load.per_unit * load.values[sequence] / ranks;
  return cost;
}

}  // namespace batchplan::checker
