#include "server/store/redis/redis_breaker.h"

#include <gtest/gtest.h>

#include <chrono>

namespace batchplan {
namespace {

using std::chrono::milliseconds;

const Instant kStart = Instant(std::chrono::hours(1));
const absl::Status kRefused = absl::UnavailableError("Connection refused");

TEST(RedisBreakerTest, LetsAllInWhileNothingHasFailed) {
  RedisBreaker breaker(milliseconds(200));
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(breaker.Admit(kStart).ok());
  EXPECT_FALSE(breaker.Succeeded());
  EXPECT_TRUE(breaker.Admit(kStart).ok());
}

TEST(RedisBreakerTest, FailsCallsAtOnceForAWhileAndThenLetsOneTry) {
  RedisBreaker breaker(milliseconds(200));
  ASSERT_TRUE(breaker.Admit(kStart).ok());
  EXPECT_TRUE(breaker.Failed(kStart, kRefused));
  EXPECT_EQ(breaker.Admit(kStart + milliseconds(199)), kRefused);
  EXPECT_TRUE(breaker.Admit(kStart + milliseconds(200)).ok());
  // Whatever time it takes, nobody else tries meanwhile.
  EXPECT_EQ(breaker.Admit(kStart + milliseconds(5000)), kRefused);
  EXPECT_FALSE(breaker.Failed(kStart + milliseconds(5000), kRefused));
  EXPECT_EQ(breaker.Admit(kStart + milliseconds(5199)), kRefused);
  EXPECT_TRUE(breaker.Admit(kStart + milliseconds(5200)).ok());
}

TEST(RedisBreakerTest, ASuccessLetsAllInAgain) {
  RedisBreaker breaker(milliseconds(200));
  EXPECT_TRUE(breaker.Failed(kStart, kRefused));
  ASSERT_TRUE(breaker.Admit(kStart + milliseconds(200)).ok());
  EXPECT_TRUE(breaker.Succeeded());
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(breaker.Admit(kStart + milliseconds(200)).ok());
  EXPECT_TRUE(breaker.Failed(kStart, kRefused));
}

}  // namespace
}  // namespace batchplan
