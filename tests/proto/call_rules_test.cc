#include "proto/batchplan/v1/call_rules.h"

#include <gtest/gtest.h>

#include <optional>
#include <tuple>
#include <vector>

namespace batchplan {
namespace {

using absl::StatusCode;

constexpr double kLongest = 1;  // not in [0, 1), for waits that are whole

// How many attempts a call makes in a minute if all attempts end so at once, and what ends it.
std::pair<int, Action> Attempts(CallKind kind, StatusCode code,
                                std::optional<absl::Duration> pushback = std::nullopt) {
  CallAttempts attempts(kind, {}, absl::Minutes(1));
  absl::Duration elapsed;
  for (;;) {
    const Verdict verdict = attempts.After(code, pushback, elapsed, kLongest);
    if (verdict.action != Action::kRetry) return {attempts.attempts(), verdict.action};
    elapsed += verdict.wait;
  }
}

constexpr CallKind kAllKinds[] = {CallKind::kPlan, CallKind::kPlanWithFallback, CallKind::kJoin,
                                  CallKind::kReport};
// 0.1, 0.2, ..., 1.6, and then 28 times 2 s fill a minute.
constexpr int kInAMinute = 34;

TEST(CallRules, ALostServerIsTriedUntilTheCallIsOver) {
  for (const StatusCode code : {StatusCode::kUnavailable, StatusCode::kCancelled}) {
    for (const CallKind kind : {CallKind::kPlan, CallKind::kJoin, CallKind::kReport}) {
      EXPECT_EQ(Attempts(kind, code), std::pair(kInAMinute, Action::kReturn));
    }
  }
}

TEST(CallRules, WithAFallbackAFewAttemptsAreMade) {
  for (const StatusCode code : {StatusCode::kUnavailable, StatusCode::kCancelled,
                                StatusCode::kUnimplemented, StatusCode::kResourceExhausted}) {
    EXPECT_EQ(Attempts(CallKind::kPlanWithFallback, code),
              std::pair(kFewAttempts, Action::kFallBack));
  }
  for (const StatusCode code : {StatusCode::kDeadlineExceeded, StatusCode::kFailedPrecondition,
                                StatusCode::kInternal, StatusCode::kUnknown}) {
    EXPECT_EQ(Attempts(CallKind::kPlanWithFallback, code), std::pair(1, Action::kFallBack));
  }
}

TEST(CallRules, RefusalsAreFinalWhateverTheCall) {
  for (const CallKind kind : kAllKinds) {
    for (const StatusCode code :
         {StatusCode::kInvalidArgument, StatusCode::kUnauthenticated, StatusCode::kPermissionDenied,
          StatusCode::kAlreadyExists, StatusCode::kOutOfRange, StatusCode::kNotFound}) {
      EXPECT_EQ(Attempts(kind, code), std::pair(1, Action::kReturn));
      EXPECT_FALSE(FallsBack(code));
    }
  }
}

TEST(CallRules, WithoutAFallbackWhatTheServerLacksIsFinal) {
  for (const CallKind kind : {CallKind::kPlan, CallKind::kJoin, CallKind::kReport}) {
    for (const StatusCode code :
         {StatusCode::kFailedPrecondition, StatusCode::kInternal, StatusCode::kUnknown}) {
      EXPECT_EQ(Attempts(kind, code), std::pair(1, Action::kReturn));
    }
    EXPECT_EQ(Attempts(kind, StatusCode::kUnimplemented), std::pair(kFewAttempts, Action::kReturn));
  }
}

// The status of a join says which workers are missing.
TEST(CallRules, TimeThatRanOutIsTriedAgainForPlansAlone) {
  EXPECT_EQ(Attempts(CallKind::kPlan, StatusCode::kDeadlineExceeded),
            std::pair(kFewAttempts, Action::kReturn));
  EXPECT_EQ(Attempts(CallKind::kJoin, StatusCode::kDeadlineExceeded),
            std::pair(1, Action::kReturn));
  EXPECT_EQ(Attempts(CallKind::kReport, StatusCode::kDeadlineExceeded),
            std::pair(1, Action::kReturn));
}

TEST(CallRules, AFullQueueIsTriedWhenTheServerSays) {
  CallAttempts attempts(CallKind::kPlan, {}, absl::Minutes(1));
  const Verdict verdict =
      attempts.After(StatusCode::kResourceExhausted, absl::Seconds(7), absl::Seconds(1), 0.5);
  EXPECT_EQ(verdict.action, Action::kRetry);
  EXPECT_EQ(verdict.wait, absl::Seconds(7));
  EXPECT_EQ(Attempts(CallKind::kJoin, StatusCode::kResourceExhausted, absl::Seconds(5)),
            std::pair(12, Action::kReturn));
  EXPECT_EQ(Attempts(CallKind::kPlan, StatusCode::kResourceExhausted, -absl::Seconds(1)),
            std::pair(1, Action::kReturn));
  EXPECT_EQ(
      Attempts(CallKind::kPlanWithFallback, StatusCode::kResourceExhausted, -absl::Seconds(1)),
      std::pair(1, Action::kFallBack));
  EXPECT_EQ(Attempts(CallKind::kPlan, StatusCode::kResourceExhausted),
            std::pair(kFewAttempts, Action::kReturn));
}

// The call gets the queue's status, not one of a later time-out.
TEST(CallRules, AnAttemptThatWouldComeTooLateIsNotWaitedFor) {
  CallAttempts attempts(CallKind::kPlan, {}, absl::Seconds(10));
  EXPECT_EQ(
      attempts.After(StatusCode::kResourceExhausted, absl::Seconds(9), absl::Seconds(1), 0).action,
      Action::kReturn);
  EXPECT_EQ(attempts
                .After(StatusCode::kResourceExhausted, absl::Seconds(9) - absl::Nanoseconds(1),
                       absl::Seconds(1), 0)
                .action,
            Action::kRetry);
}

TEST(CallRules, TheWaitIsRandomAndDoublesToTheMost) {
  CallAttempts attempts(CallKind::kJoin, {}, absl::InfiniteDuration());
  std::vector<absl::Duration> waits;
  for (int i = 0; i < 7; ++i) {
    waits.push_back(
        attempts.After(StatusCode::kUnavailable, std::nullopt, absl::Hours(1), 0.5).wait);
  }
  EXPECT_EQ(waits, (std::vector{absl::Milliseconds(50), absl::Milliseconds(100),
                                absl::Milliseconds(200), absl::Milliseconds(400),
                                absl::Milliseconds(800), absl::Seconds(1), absl::Seconds(1)}));
}

TEST(CallRules, ACallersLimitOnAttemptsHolds) {
  for (const CallKind kind : kAllKinds) {
    CallAttempts attempts(kind, {.max_attempts = 2}, absl::Minutes(1));
    const auto after = [&] {
      return attempts.After(StatusCode::kUnavailable, std::nullopt, absl::ZeroDuration(), 0).action;
    };
    EXPECT_EQ(after(), Action::kRetry);
    EXPECT_NE(after(), Action::kRetry);
  }
}

TEST(CallRules, OnlyPlansHaveALimitOnAnAttempt) {
  const auto timeout = [](CallKind kind, absl::Duration of_call) {
    return CallAttempts(kind, {}, of_call).Timeout(absl::Seconds(1));
  };
  EXPECT_EQ(timeout(CallKind::kPlan, absl::Minutes(10)), kAttemptTimeout);
  EXPECT_EQ(timeout(CallKind::kPlan, absl::Seconds(10)), absl::Seconds(9));
  EXPECT_EQ(timeout(CallKind::kPlan, absl::InfiniteDuration()), kAttemptTimeout);
  EXPECT_EQ(timeout(CallKind::kJoin, absl::Minutes(10)), absl::Minutes(10) - absl::Seconds(1));
  EXPECT_EQ(timeout(CallKind::kJoin, absl::InfiniteDuration()), absl::InfiniteDuration());
  EXPECT_EQ(timeout(CallKind::kReport, absl::Minutes(10)), absl::Minutes(10) - absl::Seconds(1));
  EXPECT_EQ(timeout(CallKind::kJoin, absl::Milliseconds(500)), absl::ZeroDuration());
}

// With a hung server: ten seconds until pings fail, and the rest of fifteen to connect again.
TEST(CallRules, AFallbackLosesFifteenSecondsOrHalfOfTheCallsTime) {
  for (const auto& [of_call, lost] : {std::pair(absl::Seconds(60), absl::Seconds(15)),
                                      std::pair(absl::Seconds(30), absl::Seconds(15)),
                                      std::pair(absl::Seconds(8), absl::Seconds(4)),
                                      std::pair(absl::InfiniteDuration(), absl::Seconds(15))}) {
    CallAttempts attempts(CallKind::kPlanWithFallback, {}, of_call);
    absl::Duration elapsed;
    Verdict verdict;
    for (const absl::Duration taken : {kKeepaliveTime + kKeepaliveTimeout, kConnectTimeout}) {
      const absl::Duration most = attempts.Timeout(elapsed);
      elapsed += std::min(taken, most);
      verdict =
          attempts.After(taken < most ? StatusCode::kUnavailable : StatusCode::kDeadlineExceeded,
                         std::nullopt, elapsed, 0.5);
      if (verdict.action != Action::kRetry) break;
      elapsed += verdict.wait;
    }
    EXPECT_EQ(verdict.action, Action::kFallBack);
    EXPECT_LE(elapsed, lost);
  }
}

// A healthy server may need long for a plan.
TEST(CallRules, TheFirstAttemptWithAFallbackHasHalfOfTheCallsTime) {
  CallAttempts attempts(CallKind::kPlanWithFallback, {}, absl::Minutes(1));
  EXPECT_EQ(attempts.Timeout(absl::ZeroDuration()), absl::Seconds(30));
  static_cast<void>(attempts.After(StatusCode::kUnavailable, std::nullopt, absl::Seconds(1), 0));
  EXPECT_EQ(attempts.Timeout(absl::Seconds(1)), absl::Seconds(14));
}

}  // namespace
}  // namespace batchplan
