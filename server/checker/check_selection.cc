#include "server/checker/check_selection.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <utility>

#include "server/checker/request_demands.h"
#include "server/checker/stated_metrics.h"
#include "server/checker/violation.h"

namespace batchplan::checker {
namespace {

constexpr uint32_t kNone = UINT32_MAX;

enum class Fate { kWaiting, kExpired, kDropped };

// What is taken or deferred as a whole: a group or a single sequence.
struct Unit {
  std::vector<uint32_t> waiting;  // members, ascending
  uint32_t age = 0;
  bool overlong = false;
  uint64_t tokens = 0;  // of the waiting members, as they would be planned
  bool taken = false;

  bool forced(const Selection& selection) const {
    return selection.max_age > 0 && age == selection.max_age;
  }
};

absl::Status CheckArray(const char* name, size_t size, size_t sequences) {
  if (size == 0 || size == sequences) return absl::OkStatus();
  return Violation("manifest.", name, " has ", size, " entries, but there are ", sequences,
                   " sequences");
}

absl::Status CheckArrays(const Manifest& manifest, const Selection& selection) {
  const size_t sequences = manifest.lengths.size();
  absl::Status status = CheckArray("group_ids", manifest.group_ids.size(), sequences);
  status.Update(CheckArray("ranks", manifest.ranks.size(), sequences));
  status.Update(CheckArray("ages", manifest.ages.size(), sequences));
  if (!status.ok()) return status;
  if (selection.max_age > 0 && manifest.ages.empty()) {
    return Violation("selection.max_age is ", selection.max_age, ", but there are no ages");
  }
  if (selection.groups > 0 && manifest.group_ids.empty()) {
    return Violation("selection.groups is ", selection.groups, ", but there are no groups");
  }
  if ((selection.sequences > 0) + (selection.groups > 0) + (selection.max_tokens > 0) != 1) {
    return Violation("selection has not exactly one target");
  }
  for (size_t i = 0; i < sequences; ++i) {
    if (manifest.lengths[i] == 0) return Violation("manifest.lengths[", i, "] is 0");
  }
  return absl::OkStatus();
}

// The longest sequence that every pass can hold, whatever the manifest has.
absl::StatusOr<uint32_t> LongestOf(const PlanOptions& options) {
  PlanOptions alone = options;
  alone.selection.reset();
  alone.mini_batches = {};
  for (PassOptions& pass : alone.passes) pass.limits.clear();
  const uint32_t length = 1;
  const absl::StatusOr<RequestDemands> demands =
      DemandsOf({.lengths = std::span(&length, 1)}, alone, RequestLoads());
  if (!demands.ok()) return demands.status();
  return demands->length_limit;
}

// What is known of the sequences before looking at the plan.
struct Waiting {
  std::vector<Fate> fates;  // by manifest position
  std::vector<Unit> units;  // in the order of the first members that wait
};

absl::StatusOr<Waiting> WaitingOf(const Manifest& manifest, const PlanOptions& options,
                                  const RequestLoads& loads) {
  const absl::StatusOr<uint32_t> longest = LongestOf(options);
  if (!longest.ok()) return longest.status();
  const Selection& selection = *options.selection;
  const size_t sequences = manifest.lengths.size();
  Waiting all;
  all.fates.assign(sequences, Fate::kWaiting);
  std::map<uint32_t, uint32_t> number_of;
  std::vector<uint32_t> unit_of;  // by manifest position
  for (uint32_t i = 0; i < sequences; ++i) {
    const uint32_t id = manifest.group_ids.empty() ? i : manifest.group_ids[i];
    const auto [found, is_new] = number_of.emplace(id, static_cast<uint32_t>(all.units.size()));
    if (is_new) all.units.emplace_back();
    unit_of.push_back(found->second);
    Unit& unit = all.units[found->second];
    if (!manifest.ages.empty()) unit.age = std::max(unit.age, manifest.ages[i]);
    unit.overlong = unit.overlong || manifest.lengths[i] > *longest || loads.ExceedsOne(i);
  }
  for (uint32_t i = 0; i < sequences; ++i) {
    Unit& unit = all.units[unit_of[i]];
    const bool overlong = manifest.lengths[i] > *longest;
    if (selection.max_age > 0 && unit.age > selection.max_age) {
      all.fates[i] = Fate::kExpired;
    } else if (options.overlong == OverlongPolicy::kDrop && unit.overlong) {
      all.fates[i] = Fate::kDropped;
    } else {
      if (loads.ExceedsOne(i) && options.overlong != OverlongPolicy::kAlone) {
        return Violation("sequence ", i, " has more of a load than a limit allows, and is neither ",
                         "dropped nor alone");
      }
      if (overlong && options.overlong == OverlongPolicy::kReject) {
        return Violation("manifest.lengths[", i, "] is ", manifest.lengths[i],
                         ", above the length limit ", *longest,
                         ", and overlong sequences are rejected");
      }
      unit.waiting.push_back(i);
      unit.tokens += options.overlong == OverlongPolicy::kTruncate
                         ? std::min(manifest.lengths[i], *longest)
                         : manifest.lengths[i];
    }
  }
  std::erase_if(all.units, [](const Unit& unit) { return unit.waiting.empty(); });
  std::ranges::sort(all.units, {}, [](const Unit& unit) { return unit.waiting.front(); });
  return all;
}

// Marks each unit as taken unless it is deferred. `deferred` is indexed by manifest position.
absl::Status MarkTaken(const std::vector<bool>& deferred, std::vector<Unit>& units) {
  for (Unit& unit : units) {
    unit.taken = !deferred[unit.waiting.front()];
    for (const uint32_t i : unit.waiting) {
      if (deferred[i] == unit.taken) {
        return Violation("sequence ", i, unit.taken ? " waits" : " is taken", ", but sequence ",
                         unit.waiting.front(), " of the same group ",
                         unit.taken ? "is taken" : "waits");
      }
    }
  }
  return absl::OkStatus();
}

absl::Status CheckTarget(const Selection& selection, const std::vector<Unit>& units) {
  uint64_t sequences = 0;
  uint64_t groups = 0;
  uint64_t tokens = 0;
  for (const Unit& unit : units) {
    if (!unit.taken) continue;
    sequences += unit.waiting.size();
    groups += 1;
    tokens += unit.tokens;
  }
  if (selection.sequences > 0 && sequences != selection.sequences) {
    return Violation(sequences, " sequences are taken, but selection.sequences is ",
                     selection.sequences);
  }
  if (selection.groups > 0 && groups != selection.groups) {
    return Violation(groups, " groups are taken, but selection.groups is ", selection.groups);
  }
  if (selection.max_tokens == 0) return absl::OkStatus();
  if (tokens > selection.max_tokens) {
    return Violation(tokens, " tokens are taken, but selection.max_tokens is ",
                     selection.max_tokens);
  }
  uint64_t first_tokens = 0;
  uint64_t first = 0;
  for (const Unit& unit : units) {
    if (!unit.forced(selection)) continue;
    first_tokens += unit.tokens;
    ++first;
  }
  for (const Unit& unit : units) {
    if (unit.forced(selection)) continue;
    first_tokens += unit.tokens;
    if (first_tokens > selection.max_tokens) break;
    ++first;
  }
  return groups == first ? absl::OkStatus()
                         : Violation(groups, " are taken, but first in, first out takes ", first,
                                     " within selection.max_tokens ", selection.max_tokens);
}

absl::Status CheckOvertaking(const Selection& selection, const std::vector<Unit>& units) {
  uint64_t behind = 0;
  for (auto unit = units.rbegin(); unit != units.rend(); ++unit) {
    if (unit->forced(selection)) {
      if (unit->taken) continue;
      return Violation("sequence ", unit->waiting.front(), " waits, but is of age ", unit->age,
                       ", selection.max_age");
    }
    if (unit->taken) {
      ++behind;
    } else if (behind > selection.max_overtaking) {
      return Violation("sequence ", unit->waiting.front(), " waits, but is passed by ", behind,
                       " behind it, above selection.max_overtaking ", selection.max_overtaking);
    }
  }
  return absl::OkStatus();
}

// Indexed by manifest position. Internal unless plan.deferred has positions of sequences that may
// wait.
absl::StatusOr<std::vector<bool>> DeferredOf(const Waiting& waiting, const Plan& plan) {
  std::vector<bool> deferred(waiting.fates.size(), false);
  for (size_t k = 0; k < plan.deferred.size(); ++k) {
    const uint32_t i = plan.deferred[k];
    if (i >= deferred.size()) {
      return Violation("deferred[", k, "] is ", i, ", but there are ", deferred.size(),
                       " sequences");
    }
    if (k > 0 && i <= plan.deferred[k - 1]) {
      return Violation("deferred[", k, "] is ", i, ", not above the one before it");
    }
    if (waiting.fates[i] != Fate::kWaiting) {
      return Violation("deferred[", k, "] is ", i, ", which is ",
                       waiting.fates[i] == Fate::kExpired ? "too old" : "dropped");
    }
    deferred[i] = true;
  }
  return deferred;
}

// Moves exclusions of taken sequences to `part`. Internal unless all other exclusions are exactly
// the sequences that are too old or dropped.
absl::Status SplitExcluded(const Manifest& manifest, const Waiting& waiting, const Plan& plan,
                           const std::vector<uint32_t>& place, Plan& part) {
  std::vector<bool> listed(waiting.fates.size(), false);
  for (size_t k = 0; k < plan.excluded.size(); ++k) {
    const ExcludedSequence& entry = plan.excluded[k];
    if (entry.index >= listed.size() || (k > 0 && entry.index <= plan.excluded[k - 1].index)) {
      return Violation("excluded[", k, "].index is ", entry.index,
                       ", out of range or not above the one before it");
    }
    const Fate fate = waiting.fates[entry.index];
    if (fate == Fate::kWaiting) {
      if (place[entry.index] == kNone || entry.reason == ExclusionReason::kExpired ||
          entry.reason == ExclusionReason::kDropped) {
        return Violation("excluded[", k, "] is sequence ", entry.index, ", which is ",
                         place[entry.index] == kNone ? "deferred" : "taken");
      }
      part.excluded.push_back({place[entry.index], entry.length, entry.reason});
      continue;
    }
    const ExclusionReason reason =
        fate == Fate::kExpired ? ExclusionReason::kExpired : ExclusionReason::kDropped;
    if (entry.reason != reason || entry.length != manifest.lengths[entry.index]) {
      return Violation("excluded[", k, "] has length ", entry.length, " and reason ",
                       static_cast<uint32_t>(entry.reason), ", but sequence ", entry.index, " has ",
                       manifest.lengths[entry.index], " and ", static_cast<uint32_t>(reason));
    }
    listed[entry.index] = true;
  }
  for (size_t i = 0; i < listed.size(); ++i) {
    if (waiting.fates[i] != Fate::kWaiting && !listed[i]) {
      return Violation("sequence ", i, " is ",
                       waiting.fates[i] == Fate::kExpired ? "too old" : "dropped",
                       ", but not in excluded");
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<TakenPart> CheckSelection(const Manifest& manifest, const PlanOptions& options,
                                         const RequestLoads& loads, const Plan& plan) {
  if (absl::Status status = CheckArrays(manifest, *options.selection); !status.ok()) return status;
  absl::StatusOr<Waiting> waiting = WaitingOf(manifest, options, loads);
  if (!waiting.ok()) return waiting.status();
  const absl::StatusOr<std::vector<bool>> deferred = DeferredOf(*waiting, plan);
  if (!deferred.ok()) return deferred.status();
  absl::Status status = MarkTaken(*deferred, waiting->units);
  if (status.ok()) status = CheckOvertaking(*options.selection, waiting->units);
  if (status.ok()) status = CheckTarget(*options.selection, waiting->units);
  if (!status.ok()) return status;

  TakenPart part;
  std::vector<uint32_t> place(manifest.lengths.size(), kNone);
  for (uint32_t i = 0; i < manifest.lengths.size(); ++i) {
    if (waiting->fates[i] != Fate::kWaiting || (*deferred)[i]) continue;
    place[i] = static_cast<uint32_t>(part.lengths.size());
    part.positions.push_back(i);
    part.lengths.push_back(manifest.lengths[i]);
    if (!manifest.group_ids.empty()) part.group_ids.push_back(manifest.group_ids[i]);
    if (!manifest.ranks.empty()) part.ranks.push_back(manifest.ranks[i]);
    if (!manifest.kinds.empty()) part.kinds.push_back(manifest.kinds[i]);
  }
  status = SplitExcluded(manifest, *waiting, plan, place, part.plan);
  if (!status.ok()) return status;
  part.plan.passes = plan.passes;
  part.plan.cost_model_used = plan.cost_model_used;
  for (size_t pass = 0; pass < plan.passes.size(); ++pass) {
    for (size_t k = 0; k < plan.passes[pass].sequence_index.size(); ++k) {
      uint32_t& index = part.plan.passes[pass].sequence_index[k];
      if (index >= place.size() || place[index] == kNone) {
        return Violation("passes[", pass, "].sequence_index[", k, "] is ", index,
                         ", which is not taken");
      }
      index = place[index];
    }
  }
  return part;
}

absl::Status CheckTakenMetrics(const Manifest& manifest, const Plan& plan) {
  const auto mean = [](std::span<const uint32_t> of, std::span<const uint32_t> values) {
    if (of.empty() || values.empty()) return 0.0;
    double sum = 0;
    for (const uint32_t i : of) sum += values[i];
    return sum / static_cast<double>(of.size());
  };
  for (size_t number = 0; number < plan.passes.size(); ++number) {
    const PassPlan& pass = plan.passes[number];
    const PlanMetrics& metrics = pass.metrics;
    uint32_t largest = 0;
    for (const uint32_t i : pass.sequence_index) {
      if (!manifest.ages.empty()) largest = std::max(largest, manifest.ages[i]);
    }
    const struct {
      const char* name;
      double stated;
      double actual;
    } figures[] = {
        {"mean_length_taken", metrics.mean_length_taken,
         mean(pass.sequence_index, manifest.lengths)},
        {"mean_length_deferred", metrics.mean_length_deferred,
         mean(plan.deferred, manifest.lengths)},
        {"mean_age", metrics.mean_age, mean(pass.sequence_index, manifest.ages)},
        {"largest_age", static_cast<double>(metrics.largest_age), static_cast<double>(largest)}};
    for (const auto& [name, stated, actual] : figures) {
      // In this form NaN fails the check.
      if (!(std::abs(stated - actual) <= kTolerance * std::max(1.0, actual))) {
        return Violation("passes[", number, "].metrics.", name, " is ", stated,
                         ", but the plan has ", actual);
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace batchplan::checker
