#include "client/cpp/retry.h"

#include <chrono>
#include <random>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"

namespace batchplan {
namespace {

class RealClock final : public RetryClock {
 public:
  absl::Duration Now() override {
    return absl::FromChrono(std::chrono::steady_clock::now().time_since_epoch());
  }
  void Sleep(absl::Duration duration) override { absl::SleepFor(duration); }
  double Random() override {
    thread_local std::minstd_rand bits(std::random_device{}());
    return std::uniform_real_distribution<double>()(bits);
  }
};

// `status`; a mere timeout also says why the attempts before it failed.
absl::Status WithReason(const absl::Status& status, const absl::Status& before, bool hurried) {
  if (!absl::IsDeadlineExceeded(status) || before.ok()) return status;
  if (hurried) return before;
  return absl::DeadlineExceededError(absl::StrCat(status.message(), "; before that ",
                                                  absl::StatusCodeToString(before.code()), ": ",
                                                  before.message()));
}

}  // namespace

RetryClock& RealRetryClock() {
  static RealClock clock;
  return clock;
}

absl::Status CallInAttempts(CallKind kind, const CallLimits& limits, absl::Duration timeout,
                            RetryClock& clock,
                            const std::function<AttemptEnd(absl::Duration timeout)>& attempt) {
  CallAttempts attempts(kind, limits, timeout);
  const absl::Duration start = clock.Now();
  absl::Status before;
  for (;;) {
    const absl::Duration left = attempts.Timeout(clock.Now() - start);
    const AttemptEnd end = attempt(left);
    if (end.status.ok()) return end.status;
    const Verdict verdict =
        attempts.After(end.status.code(), end.pushback, clock.Now() - start, clock.Random());
    if (verdict.action != Action::kRetry) {
      return WithReason(end.status, before, left < timeout / 10);
    }
    if (!absl::IsDeadlineExceeded(end.status)) before = end.status;
    clock.Sleep(verdict.wait);
  }
}

}  // namespace batchplan
