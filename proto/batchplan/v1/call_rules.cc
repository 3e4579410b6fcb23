#include "proto/batchplan/v1/call_rules.h"

#include <algorithm>

#include "absl/strings/match.h"

namespace batchplan {
namespace {

enum class Rule {
  kFinal,
  // With a fallback: without another attempt.
  kFallBackAtOnce,
  kFewTimes,
  kRetry,
};

Rule RuleFor(absl::StatusCode code, CallKind kind, std::optional<absl::Duration> pushback) {
  switch (code) {
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kCancelled:
      return Rule::kRetry;
    case absl::StatusCode::kResourceExhausted:
      if (!pushback.has_value()) return Rule::kFewTimes;
      return *pushback < absl::ZeroDuration() ? Rule::kFallBackAtOnce : Rule::kRetry;
    case absl::StatusCode::kUnimplemented:
      return Rule::kFewTimes;
    case absl::StatusCode::kDeadlineExceeded:
      return kind == CallKind::kPlan ? Rule::kFewTimes : Rule::kFallBackAtOnce;
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kInternal:
    case absl::StatusCode::kUnknown:
      return Rule::kFallBackAtOnce;
    default:
      return Rule::kFinal;
  }
}

}  // namespace

CallAttempts::CallAttempts(CallKind kind, const CallLimits& limits, absl::Duration timeout)
    : kind_(kind),
      limits_(limits),
      timeout_(timeout),
      give_up_(kind == CallKind::kPlanWithFallback ? std::min(kTimeBeforeFallback, timeout / 2)
                                                   : absl::InfiniteDuration()),
      backoff_(limits.initial_backoff) {}

absl::Duration CallAttempts::Timeout(absl::Duration elapsed) const {
  absl::Duration most = timeout_ - elapsed;
  if (kind_ == CallKind::kPlan) most = std::min(most, limits_.attempt_timeout);
  if (kind_ == CallKind::kPlanWithFallback) {
    // The first attempt may be a long plan on a server that is well: pings tell if it is not. What
    // remains of the call is for the fallback.
    most = std::min(most, attempts_ == 0 ? std::min(limits_.attempt_timeout, timeout_ / 2)
                                         : give_up_ - elapsed);
  }
  return std::max(most, absl::ZeroDuration());
}

Verdict CallAttempts::After(absl::StatusCode code, std::optional<absl::Duration> pushback,
                            absl::Duration elapsed, double random) {
  ++attempts_;
  const Rule rule = RuleFor(code, kind_, pushback);
  if (rule == Rule::kFewTimes) ++few_;
  const bool falls_back = kind_ == CallKind::kPlanWithFallback;
  const Verdict end = {.action = falls_back && rule != Rule::kFinal ? Action::kFallBack
                                                                    : Action::kReturn};
  if (rule == Rule::kFinal || rule == Rule::kFallBackAtOnce) return end;
  if (limits_.max_attempts.has_value() && attempts_ >= *limits_.max_attempts) return end;
  if (few_ >= kFewAttempts || (falls_back && attempts_ >= kFewAttempts)) return end;

  absl::Duration wait = backoff_ * random;
  backoff_ = std::min(backoff_ * 2, limits_.max_backoff);
  if (code == absl::StatusCode::kResourceExhausted && pushback.has_value()) {
    // The queue has room then; the next wait is a first one again.
    wait = *pushback;
    backoff_ = limits_.initial_backoff;
  }
  if (elapsed + wait >= std::min(timeout_, give_up_)) return end;
  return {.action = Action::kRetry, .wait = wait};
}

bool IsTooLarge(absl::string_view message) {
  return absl::StrContains(message, "message larger than max");
}

bool FallsBack(absl::StatusCode code) {
  return code != absl::StatusCode::kOk &&
         RuleFor(code, CallKind::kPlanWithFallback, std::nullopt) != Rule::kFinal;
}

bool IsNoAnswer(absl::StatusCode code) {
  return code == absl::StatusCode::kUnavailable || code == absl::StatusCode::kCancelled ||
         code == absl::StatusCode::kDeadlineExceeded;
}

}  // namespace batchplan
