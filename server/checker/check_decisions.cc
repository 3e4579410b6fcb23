#include "server/checker/check_decisions.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "server/checker/stated_metrics.h"
#include "server/checker/violation.h"

namespace batchplan::checker {
namespace {

constexpr size_t kMostDecisions = 1024;
constexpr size_t kMostTried = 16;

absl::Status CheckTried(const PassUnderCheck& pass, size_t k) {
  const MiniBatchDecision& decision = pass.plan.decisions[k];
  const std::string tried = absl::StrCat(Field(pass, "decisions", k), ".tried");
  if (decision.tried.empty() || decision.tried.size() > kMostTried) {
    return Violation(tried, " has ", decision.tried.size(), " entries, outside 1 .. ", kMostTried);
  }
  uint32_t before = 0;
  for (size_t i = 0; i < decision.tried.size(); ++i) {
    const auto& [slots, step_time] = decision.tried[i];
    if (slots <= before) {
      return Violation(tried, "[", i, "].slots is ", slots, ", not above ", before, " before it");
    }
    before = slots;
    if (slots < decision.fewest_slots || slots < pass.pass_demands.min_microbatches ||
        slots % pass.pass_demands.count_multiple != 0) {
      return Violation(tried, "[", i, "].slots is ", slots, ", which is not allowed: fewest_slots ",
                       decision.fewest_slots, ", minimum ", pass.pass_demands.min_microbatches,
                       ", multiple ", pass.pass_demands.count_multiple);
    }
    if (!std::isfinite(step_time) || step_time < 0) {
      return Violation(tried, "[", i, "].step_time is ", step_time);
    }
  }
  return absl::OkStatus();
}

absl::Status CheckOwn(const PassUnderCheck& pass, size_t k, double step_time) {
  const uint32_t slots = pass.plan.microbatches_per_rank[k];
  const auto& tried = pass.plan.decisions[k].tried;
  const auto own = std::ranges::find(tried, slots, &SlotsTried::slots);
  if (own == tried.end()) {
    return Violation(Field(pass, "decisions", k), ".tried lacks the ", slots,
                     " slots that the mini-batch has");
  }
  // In this form NaN fails the check.
  if (std::abs(own->step_time - step_time) <= kTolerance * step_time) return absl::OkStatus();
  return Violation(Field(pass, "decisions", k), ".tried[", own - tried.begin(), "].step_time is ",
                   own->step_time, ", but the mini-batch takes ", step_time);
}

}  // namespace

absl::Status CheckDecisions(const PassUnderCheck& pass, std::span<const double> step_times) {
  const PassPlan& plan = pass.plan;
  if (plan.decisions.empty()) return absl::OkStatus();
  const size_t wanted = std::min(step_times.size(), kMostDecisions);
  if (plan.decisions.size() != wanted) {
    return Violation(Field(pass, "decisions"), " has ", plan.decisions.size(),
                     " entries, but there should be ", wanted, " for ", step_times.size(),
                     " mini-batches");
  }
  uint64_t fewest = 0;
  for (size_t k = 0; k < wanted; ++k) {
    if (plan.decisions[k].method.empty()) {
      return Violation(Field(pass, "decisions", k), ".method is empty");
    }
    if (absl::Status status = CheckTried(pass, k); !status.ok()) return status;
    if (absl::Status status = CheckOwn(pass, k, step_times[k]); !status.ok()) return status;
    fewest += plan.decisions[k].fewest_slots;
  }
  // The least number of groups of a slot is checked with the metrics.
  if (!pass.pass_demands.groups.empty() || wanted < step_times.size()) return absl::OkStatus();
  if (fewest * pass.demands.data_parallel != plan.metrics.lower_bound_microbatches) {
    return Violation(Field(pass, "decisions"), " have fewest_slots of together ", fewest,
                     ", but metrics.lower_bound_microbatches is ",
                     plan.metrics.lower_bound_microbatches, " on ", pass.demands.data_parallel,
                     " ranks");
  }
  return absl::OkStatus();
}

}  // namespace batchplan::checker
