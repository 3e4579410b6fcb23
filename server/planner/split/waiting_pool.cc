#include "server/planner/split/waiting_pool.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/planner/request/cancellation.h"
#include "server/planner/request/sequence_groups.h"
#include "server/planner/split/exact_sums.h"

namespace batchplan {
namespace {

absl::Status CheckArrays(const Manifest& manifest, const Selection& selection) {
  if (selection.max_age > 0 && manifest.ages.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("selection.max_age is ", selection.max_age,
                     ", but manifest.ages is empty; give one a sequence, or leave max_age at 0"));
  }
  if (selection.groups > 0 && manifest.group_ids.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("selection.groups is ", selection.groups,
                     ", but manifest.group_ids is empty; give one a sequence, or set "
                     "selection.sequences"));
  }
  return absl::OkStatus();
}

// By manifest position, the age of the sequence's unit; empty if ages don't matter.
std::vector<uint32_t> AgesOf(const Manifest& manifest, const Selection& selection,
                             const Groups& groups) {
  if (selection.max_age == 0) return {};
  std::vector<uint32_t> ages(manifest.ages.begin(), manifest.ages.end());
  if (groups.empty()) return ages;
  std::vector<uint32_t> oldest(groups.size(), 0);
  for (uint32_t i = 0; i < ages.size(); ++i) {
    uint32_t& age = oldest[groups[SequenceIndex(i)]];
    age = std::max(age, ages[i]);
  }
  for (uint32_t i = 0; i < ages.size(); ++i) ages[i] = oldest[groups[SequenceIndex(i)]];
  return ages;
}

absl::Status TooFew(const Selection& selection, uint64_t missing, uint64_t available,
                    const char* what, const std::vector<ExcludedSequence>& excluded) {
  const auto expired =
      std::ranges::count(excluded, ExclusionReason::kExpired, &ExcludedSequence::reason);
  const auto dropped = static_cast<int64_t>(excluded.size()) - expired;
  std::string left_out;
  if (expired > 0) {
    absl::StrAppend(&left_out, "; ", expired, " sequences are too old for max_age ",
                    selection.max_age);
  }
  if (dropped > 0) absl::StrAppend(&left_out, "; ", dropped, " sequences are dropped as overlong");
  return absl::InvalidArgumentError(absl::StrCat(TargetOf(selection), ", but ", available, " ",
                                                 what, " may be taken: ", missing, " missing",
                                                 left_out));
}

}  // namespace

std::string TargetOf(const Selection& selection) {
  if (selection.sequences > 0) return absl::StrCat("selection.sequences is ", selection.sequences);
  if (selection.groups > 0) return absl::StrCat("selection.groups is ", selection.groups);
  return absl::StrCat("selection.max_tokens is ", selection.max_tokens);
}

absl::StatusOr<WaitingPool> WaitingPool::Create(const Manifest& manifest,
                                                const PlanOptions& options, const Loads& loads,
                                                const LengthLimit& limit,
                                                const Allowance& allowance) {
  const Selection& selection = *options.selection;
  if (absl::Status status = CheckArrays(manifest, selection); !status.ok()) return status;
  const Groups groups(manifest, GroupPolicy::kSameMiniBatch);
  const std::vector<uint32_t> ages = AgesOf(manifest, selection, groups);
  const auto expired = [&](size_t i) { return !ages.empty() && ages[i] > selection.max_age; };

  // Sequences that are too old may have any length.
  absl::StatusOr<PlannedLengths> planned =
      ApplyOverlongPolicy(manifest, options, groups, loads, limit,
                          [&](SequenceIndex sequence) { return expired(sequence.value()); });
  if (!planned.ok()) return planned.status();
  for (size_t i = 0; i < manifest.lengths.size(); ++i) {
    if (expired(i)) planned->lengths[i] = 1;
  }
  if (absl::Status status = CheckPadTo(manifest, *planned); !status.ok()) return status;

  WaitingPool pool;
  std::vector<SequenceIndex> waiting;
  for (uint32_t i = 0; i < manifest.lengths.size(); ++i) {
    if (expired(i)) {
      pool.excluded_.push_back({i, manifest.lengths[i], ExclusionReason::kExpired});
    } else if (planned->lengths[i] == 0) {
      pool.excluded_.push_back({i, manifest.lengths[i], ExclusionReason::kDropped});
    } else {
      waiting.emplace_back(i);
    }
  }
  pool.units_ = groups.Together(waiting);
  std::vector<bool> forced(pool.units_.size(), false);
  pool.tokens_.assign(pool.units_.size(), 0);
  for (size_t unit = 0; unit < pool.units_.size(); ++unit) {
    for (const SequenceIndex sequence : pool.units_[unit]) {
      pool.tokens_[unit] += planned->lengths[sequence.value()];
    }
    const uint32_t first = pool.units_[unit].front().value();
    forced[unit] = !ages.empty() && ages[first] == selection.max_age;
  }
  if (absl::Status status = pool.SeatUnits(manifest, selection, forced, allowance); !status.ok()) {
    return status;
  }
  return pool;
}

absl::Status WaitingPool::SeatUnits(const Manifest& manifest, const Selection& selection,
                                    const std::vector<bool>& forced, const Allowance& allowance) {
  const bool of_tokens = selection.max_tokens > 0;
  // A unit's part of the target.
  const auto weight = [&](uint32_t unit) -> uint64_t {
    if (of_tokens) return tokens_[unit];
    return selection.groups > 0 ? 1 : units_[unit].size();
  };
  const uint64_t target = of_tokens              ? selection.max_tokens
                          : selection.groups > 0 ? selection.groups
                                                 : selection.sequences;
  const char* what = of_tokens ? "tokens" : selection.groups > 0 ? "groups" : "sequences";
  uint64_t taken = 0;
  uint64_t available = 0;
  std::vector<uint32_t> others;
  for (uint32_t unit = 0; unit < units_.size(); ++unit) {
    available += weight(unit);
    if (forced[unit]) {
      certain_.push_back(unit);
      taken += weight(unit);
    } else {
      others.push_back(unit);
    }
  }
  if (taken > target) {
    return absl::InvalidArgumentError(
        absl::StrCat(TargetOf(selection), ", but ", taken, " ", what, " are of age ",
                     selection.max_age, ", max_age, and must be taken now; raise one of them"));
  }
  if (!of_tokens && available < target) {
    return TooFew(selection, target - available, available, what, excluded_);
  }

  // First in, first out, as positions in `others`.
  std::vector<uint32_t> first;
  const uint64_t rest = target - taken;
  adds_up_ = selection.sequences > 0 && !manifest.group_ids.empty();
  if (adds_up_) {
    std::vector<uint32_t> sizes;
    sizes.reserve(others.size());
    for (const uint32_t unit : others) sizes.push_back(static_cast<uint32_t>(weight(unit)));
    std::optional<std::vector<uint32_t>> units =
        UnitsThatAddUp(sizes, rest, selection.max_overtaking, allowance);
    if (absl::Status status = CheckStop(allowance); !status.ok()) return status;
    if (!units) {
      uint64_t below = taken;
      for (const uint32_t size : sizes) {
        if (below + size > target) break;
        below += size;
      }
      return absl::InvalidArgumentError(absl::StrCat(
          TargetOf(selection), ", but groups stay whole, and with max_overtaking ",
          selection.max_overtaking, " none were found that add up to it: the first add up to ",
          below, ", ", target - below, " missing; set another number, or selection.groups"));
    }
    first = *std::move(units);
  } else {
    uint64_t sum = 0;
    for (uint32_t i = 0; i < others.size() && weight(others[i]) <= rest - sum; ++i) {
      sum += weight(others[i]);
      first.push_back(i);
    }
    if (of_tokens && first.empty() && certain_.empty()) {
      return units_.size() == 0 ? TooFew(selection, 1, 0, "sequences", excluded_)
                                : absl::InvalidArgumentError(absl::StrCat(
                                      TargetOf(selection), ", but what waits first takes ",
                                      tokens_[others[0]], " tokens; it must be at least that"));
    }
  }

  const size_t sure = first.size() - std::min<size_t>(first.size(), selection.max_overtaking);
  certain_.insert(certain_.end(), others.begin(),
                  others.begin() + static_cast<std::ptrdiff_t>(sure));
  std::ranges::sort(certain_);
  open_.assign(others.begin() + static_cast<std::ptrdiff_t>(sure), others.end());
  for (size_t i = sure; i < first.size(); ++i) {
    first_choice_.push_back(first[i] - static_cast<uint32_t>(sure));
  }
  max_open_tokens_ = std::numeric_limits<uint64_t>::max();
  if (of_tokens) {
    max_open_tokens_ = target;
    for (const uint32_t unit : certain_) max_open_tokens_ -= tokens_[unit];
  }
  return absl::OkStatus();
}

std::vector<SequenceIndex> WaitingPool::Sequences(std::span<const uint32_t> chosen) const {
  std::vector<SequenceIndex> sequences;
  const auto add = [&](uint32_t unit) {
    sequences.insert(sequences.end(), units_[unit].begin(), units_[unit].end());
  };
  for (const uint32_t unit : certain_) add(unit);
  for (const uint32_t position : chosen) add(open_[position]);
  std::ranges::sort(sequences);
  return sequences;
}

}  // namespace batchplan
