#include "server/planner/request/loads.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <queue>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

namespace batchplan {

std::string QuotedLoad(absl::string_view name) {
  return absl::StrCat("\"", absl::Utf8SafeCEscape(name), "\"");
}

namespace {

absl::Status CheckValue(absl::string_view where, double value) {
  // NaN fails both tests.
  if (value >= 0 && std::isfinite(value)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(where, " is ", value, "; it must be finite, and at least 0"));
}

absl::Status CheckSum(absl::string_view where, std::span<const double> values) {
  if (std::isfinite(std::accumulate(values.begin(), values.end(), 0.0))) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(where, " add up to more than a double holds; use a larger unit"));
}

const LoadItems* FindItems(const Manifest& manifest, absl::string_view load) {
  const auto found = std::ranges::find(manifest.items, load, &LoadItems::load);
  return found == manifest.items.end() ? nullptr : &*found;
}

absl::Status CheckLoad(const Manifest& manifest, size_t number) {
  const Load& load = manifest.loads[number];
  const std::string where = absl::StrCat("manifest.loads[", number, "]");
  if (load.name.empty() || load.name.size() > kMaxLoadName) {
    return absl::InvalidArgumentError(absl::StrCat(where, ".name has ", load.name.size(),
                                                   " bytes; it must have 1 to ", kMaxLoadName));
  }
  const size_t sequences = manifest.lengths.size();
  const bool has_items = FindItems(manifest, load.name) != nullptr;
  if (has_items ? !load.values.empty() : load.values.size() != sequences) {
    return absl::InvalidArgumentError(absl::StrCat(
        where, ".values of ", QuotedLoad(load.name), " has ", load.values.size(), " entries; ",
        has_items ? "manifest.items has its parts, so leave them out"
                  : absl::StrCat("give one for each of the ", sequences, " sequences")));
  }
  for (size_t i = 0; i < load.values.size(); ++i) {
    absl::Status status = CheckValue(absl::StrCat(where, ".values[", i, "]"), load.values[i]);
    if (!status.ok()) return status;
  }
  return CheckSum(where + ".values", load.values);
}

absl::Status CheckItems(const Manifest& manifest, size_t number) {
  const LoadItems& items = manifest.items[number];
  const std::string where = absl::StrCat("manifest.items[", number, "]");
  const auto has_name = [&](const Load& load) { return load.name == items.load; };
  if (std::ranges::none_of(manifest.loads, has_name)) {
    return absl::InvalidArgumentError(absl::StrCat(where, ".load is ", QuotedLoad(items.load),
                                                   ", which none of manifest.loads is called"));
  }
  if (FindItems(manifest, items.load) != &items) {
    return absl::InvalidArgumentError(
        absl::StrCat(where, ".load is ", QuotedLoad(items.load),
                     ", of which an earlier entry has the items; give all of them there"));
  }
  if (items.sequences.size() != items.values.size()) {
    return absl::InvalidArgumentError(absl::StrCat(where, ".sequences has ", items.sequences.size(),
                                                   " entries, but values has ", items.values.size(),
                                                   "; give one of each for an item"));
  }
  for (size_t i = 0; i < items.sequences.size(); ++i) {
    const uint32_t sequence = items.sequences[i];
    if (sequence >= manifest.lengths.size()) {
      return absl::InvalidArgumentError(absl::StrCat(where, ".sequences[", i, "] is ", sequence,
                                                     ", but manifest.lengths has ",
                                                     manifest.lengths.size(), " sequences"));
    }
    if (i > 0 && sequence < items.sequences[i - 1]) {
      return absl::InvalidArgumentError(absl::StrCat(where, ".sequences[", i, "] is ", sequence,
                                                     ", below the one before it, ",
                                                     items.sequences[i - 1], "; they ascend"));
    }
    absl::Status status = CheckValue(absl::StrCat(where, ".values[", i, "]"), items.values[i]);
    if (!status.ok()) return status;
  }
  return CheckSum(where + ".values", items.values);
}

// Checks that `name`, at `where`, is a load of the manifest and is not in `seen`.
absl::Status CheckName(const Manifest& manifest, absl::string_view where, absl::string_view name,
                       std::set<absl::string_view>& seen) {
  const auto has_name = [&](const Load& load) { return load.name == name; };
  if (std::ranges::none_of(manifest.loads, has_name)) {
    std::string names;
    for (const Load& load : manifest.loads) {
      absl::StrAppend(&names, names.empty() ? "" : ", ", QuotedLoad(load.name));
    }
    return absl::InvalidArgumentError(absl::StrCat(where, ".load is ", QuotedLoad(name),
                                                   ", but manifest.loads has ",
                                                   names.empty() ? "none" : names));
  }
  if (seen.insert(name).second) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(where, ".load is ", QuotedLoad(name), ", which an earlier entry is of"));
}

absl::Status CheckCosts(const Manifest& manifest, const PlanOptions& options) {
  std::set<absl::string_view> seen;
  for (size_t i = 0; i < options.cost_model.loads.size(); ++i) {
    const LoadCost& cost = options.cost_model.loads[i];
    const std::string where = absl::StrCat("cost_model.loads[", i, "]");
    absl::Status status = CheckName(manifest, where, cost.load, seen);
    if (!status.ok()) return status;
    if (cost.dealt && FindItems(manifest, cost.load) == nullptr) {
      return absl::InvalidArgumentError(
          absl::StrCat(where, ".dealt is set, but manifest.items has no items of ",
                       QuotedLoad(cost.load), "; give them, or set separate"));
    }
    if (cost.has_phase() && options.topology.pipeline_parallel > 1) {
      return absl::InvalidArgumentError(absl::StrCat(
          where, cost.dealt ? ".dealt" : ".separate", " is set, but topology.pipeline_parallel is ",
          options.topology.pipeline_parallel,
          ", where stages have no phases; leave it unset, so that the load is part of the cost"));
    }
  }
  if (options.cost_model.loads.empty()) return absl::OkStatus();
  for (size_t i = 0; i < options.passes.size(); ++i) {
    if (options.passes[i].layout == Layout::kPacked) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("cost_model.loads is set, but passes[", i,
                     "] has the padded layout, in which costs go by width; use limits, or packed"));
  }
  return absl::OkStatus();
}

absl::Status CheckLimits(const Manifest& manifest, const PassOptions& pass,
                         absl::string_view of_pass) {
  std::set<absl::string_view> seen;
  for (size_t i = 0; i < pass.limits.size(); ++i) {
    const LoadLimit& limit = pass.limits[i];
    const std::string where = absl::StrCat(of_pass, ".limits[", i, "]");
    absl::Status status = CheckName(manifest, where, limit.load, seen);
    if (!status.ok()) return status;
    if (!(limit.max_per_microbatch > 0 && std::isfinite(limit.max_per_microbatch))) {
      return absl::InvalidArgumentError(absl::StrCat(where, ".max_per_microbatch is ",
                                                     limit.max_per_microbatch,
                                                     "; it must be finite, and above 0"));
    }
  }
  return absl::OkStatus();
}

// Groups that differ in size know no loads.
absl::Status CheckWithDynamicContext(const PlanOptions& options) {
  if (!options.topology.dynamic_context) return absl::OkStatus();
  std::string set = options.cost_model.loads.empty() ? "" : "cost_model.loads";
  for (size_t i = 0; i < options.passes.size() && set.empty(); ++i) {
    const PassOptions& pass = options.passes[i];
    if (!pass.limits.empty()) set = absl::StrCat("passes[", i, "].limits");
    if (pass.kinds_per_slot != KindsPerSlot::kAny) {
      set = absl::StrCat("passes[", i, "].kinds_per_slot");
    }
  }
  if (set.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      set,
      " is set beside topology.dynamic_context, whose groups go by tokens; leave one of them "
      "out"));
}

}  // namespace

absl::Status CheckLoads(const Manifest& manifest, const PlanOptions& options) {
  if (manifest.loads.size() > kMaxLoads) {
    return absl::InvalidArgumentError(absl::StrCat("manifest.loads has ", manifest.loads.size(),
                                                   " entries; the limit is ", kMaxLoads));
  }
  std::set<absl::string_view> names;
  for (size_t i = 0; i < manifest.loads.size(); ++i) {
    if (absl::Status status = CheckLoad(manifest, i); !status.ok()) return status;
    if (names.insert(manifest.loads[i].name).second) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("manifest.loads[", i, "].name is ", QuotedLoad(manifest.loads[i].name),
                     ", which an earlier load has; names are unique"));
  }
  for (size_t i = 0; i < manifest.items.size(); ++i) {
    if (absl::Status status = CheckItems(manifest, i); !status.ok()) return status;
  }
  if (!manifest.kinds.empty() && manifest.kinds.size() != manifest.lengths.size()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "manifest.kinds has ", manifest.kinds.size(), " entries, but manifest.lengths has ",
        manifest.lengths.size(), "; give one a sequence, or none"));
  }
  if (absl::Status status = CheckWithDynamicContext(options); !status.ok()) return status;
  if (absl::Status status = CheckCosts(manifest, options); !status.ok()) return status;
  for (size_t i = 0; i < options.passes.size(); ++i) {
    absl::Status status = CheckLimits(manifest, options.passes[i], absl::StrCat("passes[", i, "]"));
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

std::vector<uint32_t> Deal(std::span<const double> values, std::span<double> sums) {
  std::vector<uint32_t> order(values.size());
  std::iota(order.begin(), order.end(), 0u);
  std::ranges::stable_sort(order, std::greater(), [&](uint32_t i) { return values[i]; });
  using Entry = std::pair<double, uint32_t>;  // sum, rank
  std::vector<Entry> all;
  all.reserve(sums.size());
  for (uint32_t rank = 0; rank < sums.size(); ++rank) all.emplace_back(sums[rank], rank);
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> least(std::greater<>(),
                                                                       std::move(all));
  std::vector<uint32_t> ranks(values.size());
  for (const uint32_t i : order) {
    const auto [sum, rank] = least.top();
    least.pop();
    ranks[i] = rank;
    sums[rank] = sum + values[i];
    least.emplace(sums[rank], rank);
  }
  return ranks;
}

Loads::Loads(const Manifest& manifest) {
  const size_t sequences = manifest.lengths.size();
  loads_.reserve(manifest.loads.size());
  for (const Load& load : manifest.loads) {
    Values& own = loads_.emplace_back();
    own.name = load.name;
    own.given = load.values;
    const LoadItems* const items = FindItems(manifest, load.name);
    if (items == nullptr) continue;
    own.items = items->values;
    own.sums.assign(sequences, 0);
    own.item_offsets.assign(sequences + 1, 0);
    for (size_t i = 0; i < items->sequences.size(); ++i) {
      own.sums[items->sequences[i]] += items->values[i];
      ++own.item_offsets[items->sequences[i] + size_t{1}];
    }
    std::partial_sum(own.item_offsets.begin(), own.item_offsets.end(), own.item_offsets.begin());
  }
}

size_t Loads::NumberOf(absl::string_view name) const {
  return static_cast<size_t>(std::ranges::find(loads_, name, &Values::name) - loads_.begin());
}

LoadsTaken::LoadsTaken(const Manifest& manifest, std::span<const SequenceIndex> taken) {
  values_.reserve(manifest.loads.size());
  loads_.reserve(manifest.loads.size());
  for (const Load& load : manifest.loads) {
    std::vector<double>& own = values_.emplace_back();
    if (!load.values.empty()) {
      own.reserve(taken.size());
      for (const SequenceIndex sequence : taken) own.push_back(load.values[sequence.value()]);
    }
    loads_.push_back({.name = load.name, .values = own});
  }
  taken_items_.reserve(manifest.items.size());
  items_.reserve(manifest.items.size());
  for (const LoadItems& items : manifest.items) {
    Items& own = taken_items_.emplace_back();
    own.all = items.values.size();
    size_t at = 0;
    for (uint32_t i = 0; i < taken.size(); ++i) {
      const uint32_t sequence = taken[i].value();
      while (at < items.sequences.size() && items.sequences[at] < sequence) ++at;
      for (; at < items.sequences.size() && items.sequences[at] == sequence; ++at) {
        own.sequences.push_back(i);
        own.values.push_back(items.values[at]);
        own.numbers.push_back(at);
      }
    }
    items_.push_back({.load = items.load, .sequences = own.sequences, .values = own.values});
  }
}

std::vector<uint32_t> LoadsTaken::OfAll(absl::string_view load,
                                        std::span<const uint32_t> of_taken) const {
  const auto found = std::ranges::find(items_, load, &LoadItems::load);
  const Items& items = taken_items_[static_cast<size_t>(found - items_.begin())];
  std::vector<uint32_t> of_all(items.all, 0);
  for (size_t i = 0; i < items.numbers.size(); ++i) of_all[items.numbers[i]] = of_taken[i];
  return of_all;
}

double Loads::LargestOf(size_t load, SequenceIndex sequence, uint32_t dealt_to) const {
  if (dealt_to == 0) return Of(load, sequence);
  const std::span<const double> items = ItemsOf(load, sequence);
  if (items.empty()) return 0;
  // Further ranks would have nothing.
  std::vector<double> sums(std::min<size_t>(dealt_to, items.size()), 0);
  Deal(items, sums);
  return std::ranges::max(sums);
}

const Loads& NoLoads() {
  static const Loads none;
  return none;
}

bool IsDealt(const CostModel& model, absl::string_view load) {
  return std::ranges::any_of(model.loads,
                             [&](const LoadCost& cost) { return cost.load == load && cost.dealt; });
}

std::optional<ExceededLimit> LimitExceededBy(const Loads& loads, const PlanOptions& options,
                                             SequenceIndex sequence) {
  for (size_t pass = 0; pass < options.passes.size(); ++pass) {
    for (const LoadLimit& limit : options.passes[pass].limits) {
      const size_t load = loads.NumberOf(limit.load);
      const double value = loads.LargestOf(
          load, sequence,
          IsDealt(options.cost_model, limit.load) ? options.topology.data_parallel : 0);
      if (value <= limit.max_per_microbatch * kLimitSlack) continue;
      return ExceededLimit{
          .pass = pass, .load = load, .value = value, .limit = limit.max_per_microbatch};
    }
  }
  return std::nullopt;
}

}  // namespace batchplan
