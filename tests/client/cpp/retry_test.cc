#include "client/cpp/retry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace batchplan {
namespace {

using ::testing::ElementsAre;

// Time passes only in sleeps, and when a test advances it.
class FakeClock final : public RetryClock {
 public:
  absl::Duration Now() override { return now; }
  void Sleep(absl::Duration duration) override {
    slept.push_back(duration);
    now += duration;
  }
  double Random() override { return 0.5; }

  absl::Duration now = absl::Hours(5);
  std::vector<absl::Duration> slept;
};

class RetryTest : public ::testing::Test {
 protected:
  absl::Status Call(CallKind kind, absl::Duration timeout,
                    const std::function<AttemptEnd(absl::Duration)>& attempt) {
    return CallInAttempts(kind, {}, timeout, clock_, [&](absl::Duration left) {
      ++attempts_;
      return attempt(left);
    });
  }

  FakeClock clock_;
  int attempts_ = 0;
};

TEST_F(RetryTest, AServerThatIsAwayIsMetWhenItComesBack) {
  const absl::Duration back = clock_.now + absl::Seconds(5);
  const absl::Status status = Call(CallKind::kJoin, absl::Seconds(30), [&](absl::Duration) {
    return AttemptEnd{clock_.now < back ? absl::UnavailableError("away") : absl::OkStatus()};
  });
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_LT(clock_.now, back + absl::Seconds(1));
}

TEST_F(RetryTest, AServerThatStaysAwayIsUnavailableInTheEnd) {
  const absl::Duration start = clock_.now;
  const absl::Status status = Call(CallKind::kReport, absl::Seconds(30), [&](absl::Duration left) {
    EXPECT_EQ(left, start + absl::Seconds(30) - clock_.now);
    return AttemptEnd{absl::UnavailableError("away")};
  });
  EXPECT_EQ(status, absl::UnavailableError("away"));
  EXPECT_GT(clock_.now - start, absl::Seconds(28));
  EXPECT_LE(clock_.now - start, absl::Seconds(30));
}

TEST_F(RetryTest, TheServersOwnWaitIsKept) {
  const absl::Status status = Call(CallKind::kPlan, absl::Seconds(30), [&](absl::Duration) {
    return attempts_ < 3 ? AttemptEnd{absl::ResourceExhaustedError("full"), absl::Seconds(3)}
                         : AttemptEnd{absl::OkStatus()};
  });
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_THAT(clock_.slept, ElementsAre(absl::Seconds(3), absl::Seconds(3)));
}

TEST_F(RetryTest, AWaitBeyondTheCallIsNotBegun) {
  const absl::Status status = Call(CallKind::kPlan, absl::Seconds(30), [&](absl::Duration) {
    return AttemptEnd{absl::ResourceExhaustedError("full"), absl::Minutes(1)};
  });
  EXPECT_EQ(status, absl::ResourceExhaustedError("full"));
  EXPECT_THAT(clock_.slept, ElementsAre());
}

TEST_F(RetryTest, AFinalStatusIsReturnedAtOnce) {
  const absl::Status status = Call(CallKind::kPlan, absl::Seconds(30), [&](absl::Duration) {
    return AttemptEnd{absl::InvalidArgumentError("no")};
  });
  EXPECT_EQ(status, absl::InvalidArgumentError("no"));
  EXPECT_EQ(attempts_, 1);
}

TEST_F(RetryTest, AnAttemptInTheLastMomentsChangesNothing) {
  const absl::Status status = Call(CallKind::kPlan, absl::Seconds(30), [&](absl::Duration left) {
    if (attempts_ == 1) return AttemptEnd{absl::ResourceExhaustedError("full"), absl::Seconds(28)};
    clock_.now += left;
    return AttemptEnd{absl::DeadlineExceededError("time is over")};
  });
  EXPECT_EQ(status, absl::ResourceExhaustedError("full"));
}

TEST_F(RetryTest, WhatWasWrongIsToldWhereTimeRanOut) {
  const absl::Status status = Call(CallKind::kJoin, absl::Seconds(30), [&](absl::Duration left) {
    if (attempts_ == 1) return AttemptEnd{absl::UnavailableError("connection refused")};
    clock_.now += left;
    return AttemptEnd{absl::DeadlineExceededError("time is over")};
  });
  EXPECT_EQ(status, absl::DeadlineExceededError(
                        "time is over; before that UNAVAILABLE: connection refused"));
}

}  // namespace
}  // namespace batchplan
