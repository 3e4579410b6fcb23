#include "server/service/admission/unsent_answers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "server/service/admission/rpc_status.h"

namespace batchplan {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr uint64_t kKilobyte = 1024;

class UnsentAnswersTest : public ::testing::Test {
 protected:
  // An answer with the size `takes`, which appends `name` to a list when cancelled.
  UnsentAnswers::Answer Answer(const std::string& owner, const std::string& name, uint64_t takes) {
    return {.owner = owner,
            .bytes = takes - UnsentAnswers::kCallBytes,
            .shared = nullptr,
            .cancel = [this, name] { cancelled_.push_back(name); }};
  }

  void Pass(absl::Duration time) { nanoseconds_ += absl::ToInt64Nanoseconds(time); }

  std::vector<std::string> cancelled_;
  std::atomic<int64_t> nanoseconds_ = 0;
  Metrics metrics_{"test"};
  UnsentAnswers unsent_{
      {.max_bytes = 100 * kKilobyte,
       .longest = absl::Minutes(5),
       .clock = [this] { return Instant(std::chrono::nanoseconds(nanoseconds_)); }},
      &metrics_};
};

TEST_F(UnsentAnswersTest, ThereIsRoomAgainOnceAnAnswerIsSent) {
  const absl::StatusOr<uint64_t> first = unsent_.Begin(Answer("a", "1", 60 * kKilobyte));
  ASSERT_TRUE(first.ok());
  const absl::Status refused = unsent_.Begin(Answer("a", "2", 60 * kKilobyte)).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("max_unsent_bytes=102400"));
  EXPECT_EQ(RetryAfter(refused), absl::Seconds(1));
  unsent_.End(*first);
  unsent_.End(*first);
  EXPECT_TRUE(unsent_.Begin(Answer("a", "3", 60 * kKilobyte)).ok());
  EXPECT_THAT(cancelled_, IsEmpty());
}

TEST_F(UnsentAnswersTest, AnAnswerThatIsAloneIsLetInAtAnySize) {
  const absl::StatusOr<uint64_t> huge = unsent_.Begin(Answer("a", "1", 5000 * kKilobyte));
  ASSERT_TRUE(huge.ok());
  EXPECT_FALSE(unsent_.Begin(Answer("a", "2", 5 * kKilobyte)).ok());
}

TEST_F(UnsentAnswersTest, TheOldestOfTheOwnerThatHoldsMostGiveWay) {
  for (const char* name : {"1", "2", "3"}) {
    ASSERT_TRUE(unsent_.Begin(Answer("greedy", name, 30 * kKilobyte)).ok());
  }
  ASSERT_TRUE(unsent_.Begin(Answer("small", "s1", 10 * kKilobyte)).ok());
  EXPECT_THAT(cancelled_, IsEmpty());
  ASSERT_TRUE(unsent_.Begin(Answer("small", "s2", 20 * kKilobyte)).ok());
  EXPECT_THAT(cancelled_, ElementsAre("1"));
  // Its own young answers are not cancelled for a new one, but old ones are.
  EXPECT_FALSE(unsent_.Begin(Answer("greedy", "4", 30 * kKilobyte)).ok());
  Pass(UnsentAnswers::kPatience);
  EXPECT_TRUE(unsent_.Begin(Answer("greedy", "5", 30 * kKilobyte)).ok());
  EXPECT_THAT(cancelled_, ElementsAre("1", "2"));
}

TEST_F(UnsentAnswersTest, WhatAnswersShareCountsOnce) {
  const auto plan = std::make_shared<const int>(0);
  std::vector<uint64_t> tickets;
  for (int i = 0; i < 8; ++i) {
    UnsentAnswers::Answer answer = Answer("a", "shared", 50 * kKilobyte + (i == 0 ? 0 : 2));
    answer.shared = plan;
    const absl::StatusOr<uint64_t> ticket = unsent_.Begin(answer);
    ASSERT_TRUE(ticket.ok()) << i;
    tickets.push_back(*ticket);
  }
  EXPECT_FALSE(unsent_.Begin(Answer("a", "own", 50 * kKilobyte)).ok());
  for (const uint64_t ticket : tickets) unsent_.End(ticket);
  EXPECT_TRUE(unsent_.Begin(Answer("a", "own", 100 * kKilobyte)).ok());
  EXPECT_FALSE(unsent_.Begin(Answer("a", "own", 5 * kKilobyte)).ok());
}

TEST_F(UnsentAnswersTest, WhatNobodyReadsIsCancelledInTheEnd) {
  ASSERT_TRUE(unsent_.Begin(Answer("a", "1", 5 * kKilobyte)).ok());
  Pass(absl::Minutes(3));
  ASSERT_TRUE(unsent_.Begin(Answer("a", "2", 5 * kKilobyte)).ok());
  unsent_.CancelOld();
  EXPECT_THAT(cancelled_, IsEmpty());
  Pass(absl::Minutes(2));
  unsent_.CancelOld();
  unsent_.CancelOld();
  EXPECT_THAT(cancelled_, ElementsAre("1"));
}

TEST_F(UnsentAnswersTest, AnAnswerMayEndWhileItIsCancelled) {
  uint64_t ticket = 0;
  UnsentAnswers::Answer answer = Answer("a", "1", 80 * kKilobyte);
  answer.cancel = [&] { unsent_.End(ticket); };
  ticket = unsent_.Begin(answer).value();
  Pass(UnsentAnswers::kPatience);
  EXPECT_TRUE(unsent_.Begin(Answer("a", "2", 80 * kKilobyte)).ok());
}

}  // namespace
}  // namespace batchplan
