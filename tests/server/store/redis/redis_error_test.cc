#include "server/store/redis/redis_error.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace batchplan {
namespace {

using ::testing::HasSubstr;

absl::StatusCode CodeOf(const std::string& text) { return StatusFromRedisError(text).code(); }

TEST(RedisErrorTest, NoMemoryIsResourceExhausted) {
  EXPECT_EQ(CodeOf("OOM command not allowed when used memory > 'maxmemory'."),
            absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(CodeOf("OOM command not allowed when used memory > 'maxmemory'. script: 3d5, on "
                   "@user_script:8."),
            absl::StatusCode::kResourceExhausted);
  // As Redis 6 says it.
  EXPECT_EQ(CodeOf("ERR Error running script (call to f_3d5): @user_script:8: @user_script: 8: "
                   "-OOM command not allowed when used memory > 'maxmemory'. "),
            absl::StatusCode::kResourceExhausted);
}

TEST(RedisErrorTest, WhatPassesByItselfIsUnavailable) {
  for (const char* text :
       {"LOADING Redis is loading the dataset in memory", "BUSY Redis is busy running a script.",
        "MASTERDOWN Link with MASTER is down",
        "READONLY You can't write against a read only replica.", "CLUSTERDOWN The cluster is down",
        "TRYAGAIN Multiple keys request during rehashing of slot",
        "NOREPLICAS Not enough good replicas to write.",
        "MISCONF Redis is configured to save RDB snapshots", "ERR max number of clients reached",
        "LOADING",
        "ERR Error running script (call to f_3d5): @user_script:8: @user_script: 8: "
        "-READONLY You can't write against a read only replica. "}) {
    EXPECT_EQ(CodeOf(text), absl::StatusCode::kUnavailable) << text;
  }
}

TEST(RedisErrorTest, WhatAPersonHasToPutRightIsFailedPrecondition) {
  for (const char* text :
       {"NOAUTH Authentication required.", "WRONGPASS invalid username-password pair",
        "NOPERM this user has no permissions to run the 'evalsha' command",
        "DENIED Redis is running in protected mode", "MOVED 3999 127.0.0.1:6381",
        "ASK 3999 127.0.0.1:6381", "ERR Protocol error: unauthenticated multibulk length"}) {
    EXPECT_EQ(CodeOf(text), absl::StatusCode::kFailedPrecondition) << text;
  }
}

TEST(RedisErrorTest, EverythingElseIsInternal) {
  for (const char* text : {"", "ERR unknown command", "WRONGTYPE Operation against a key", "OOMPH",
                           "BUSYKEY exists", "ERR value: -OOM ", "MOVEDX"}) {
    EXPECT_EQ(CodeOf(text), absl::StatusCode::kInternal) << text;
  }
}

TEST(RedisErrorTest, AnEndlessTextIsCut) {
  EXPECT_EQ(StatusFromRedisError(std::string(100'000, 'x')).message().size(), 200);
}

TEST(RedisErrorTest, AnExplanationNamesTheStoreTheReasonAndWhatToDo) {
  const absl::Status unavailable =
      ExplainRedisFailure("redis://redis:6379", absl::UnavailableError("Connection refused"));
  EXPECT_EQ(unavailable.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(std::string(unavailable.message()),
            "the rendezvous store redis://redis:6379 can't be reached: Connection refused; "
            "JoinBatch and fitted costs wait for it, PlanBatch does not need it; check "
            "--rendezvous_store, then retry");
  EXPECT_EQ(ExplainRedisFailure("r", absl::DeadlineExceededError("late")).code(),
            absl::StatusCode::kUnavailable);
  const absl::Status full = ExplainRedisFailure("r", absl::ResourceExhaustedError("OOM"));
  EXPECT_EQ(full.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(full.message()), HasSubstr("maxmemory"));
  const absl::Status refused = ExplainRedisFailure("r", absl::FailedPreconditionError("NOAUTH"));
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("password"));
  EXPECT_EQ(ExplainRedisFailure("r", absl::InternalError("odd")).code(),
            absl::StatusCode::kInternal);
}

}  // namespace
}  // namespace batchplan
