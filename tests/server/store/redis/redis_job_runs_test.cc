// Runs of a job over a redis-server that forgets their order.

#include "server/store/redis/redis_job_runs.h"

#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <thread>

#include "server/store/redis/redis_stores.h"
#include "tests/support/redis_server.h"

namespace batchplan::testing {
namespace {

RedisStores Open(const RedisServer& redis) {
  // Patient on a busy machine, and without a pause after a failure.
  return OpenRedisStores(redis.url(), {.client = {.connect_timeout = absl::Seconds(20),
                                                  .command_timeout = absl::Seconds(20),
                                                  .retry_delay = absl::ZeroDuration()}})
      .value();
}

const StepPart kPart = {.worker = 0, .world_size = 1, .terms = "terms", .content = "content"};

// An old run, a new one, and a Redis that forgets both before each of these calls.
class ForgottenRunsTest : public ::testing::Test {
 protected:
  ForgottenRunsTest() {
    // Each replica knows both runs once it was asked for them.
    for (const char* run : {"old", "new"}) {
      for (RedisStores& replica : replicas_) EXPECT_EQ(Join(replica, run), "");
    }
  }

  // The run that superseded this one; empty if there is none.
  std::string Join(RedisStores& replica, const std::string& run) {
    const StepKey key = {.job_id = "job", .step = 7, .run_id = run};
    const PartReceipt receipt = replica.steps->PutPart(key, kPart).value();
    const std::string current =
        replica.steps->Progress(key, "here").value().current_run.value_or("");
    EXPECT_EQ(receipt.current_run, current);
    return current;
  }

  void Forget(bool restart) {
    if (restart) {
      redis_.Kill();
      redis_.Start();
    } else {
      redis_.Command({"FLUSHALL"});
    }
  }

  // Waits until every replica has told Redis what it knows; ctest ends a test that waits forever.
  void AwaitOrder() {
    while (redis_.Command({"ZRANGE", "batchplan:v1:run_order:job", "0", "-1"}) != "old\nnew\n") {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  }

  RedisServer redis_;
  RedisStores replicas_[2] = {Open(redis_), Open(redis_)};
};

TEST_F(ForgottenRunsTest, AnOldRunNeverSupersedesANewOneAtAReplicaThatSawBoth) {
  for (const bool restart : {false, true}) {
    Forget(restart);
    EXPECT_EQ(Join(replicas_[0], "new"), "");
    EXPECT_EQ(Join(replicas_[1], "old"), "new");
    EXPECT_EQ(Join(replicas_[0], "new"), "");
    // Even if the old run comes first.
    Forget(restart);
    EXPECT_EQ(Join(replicas_[1], "old"), "new");
    EXPECT_EQ(Join(replicas_[0], "new"), "");
    EXPECT_EQ(Join(replicas_[1], "old"), "new");
  }
}

TEST_F(ForgottenRunsTest, AnOldRunThatWasTakenForTheNewOneIsSupersededAgain) {
  // All that a replica says that has seen neither run.
  Forget(/*restart=*/false);
  redis_.Command({"ZADD", "batchplan:v1:run_order:job", "9000000000000001", "old"});
  EXPECT_EQ(Join(replicas_[0], "new"), "");
  EXPECT_EQ(Join(replicas_[1], "old"), "new");
}

TEST_F(ForgottenRunsTest, OneReplicaThatSawBothTellsTheOthersThoughNobodyAsksIt) {
  for (const bool restart : {false, true}) {
    RedisStores stranger = Open(redis_);
    Forget(restart);
    // Without a restart, replicas do not notice, so the test announces a change.
    if (!restart) redis_.Command({"PUBLISH", "batchplan:v1:steps", "job!"});
    AwaitOrder();
    EXPECT_EQ(Join(stranger, "old"), "new");
    EXPECT_EQ(Join(stranger, "new"), "");
  }
}

TEST_F(ForgottenRunsTest, AThirdRunIsTheNewestWhateverTheClockOfTheRedisSays) {
  Forget(/*restart=*/false);
  redis_.Command({"ZADD", "batchplan:v1:run_order:job", "9000000000000000", "ahead"});
  EXPECT_EQ(Join(replicas_[0], "third"), "");
  EXPECT_EQ(Join(replicas_[1], "new"), "third");
  EXPECT_EQ(Join(replicas_[1], "ahead"), "third");
}

TEST_F(ForgottenRunsTest, ARedisThatIsFullRefusesPartsAndStillKnowsTheOrder) {
  ASSERT_EQ(redis_.Command({"CONFIG", "SET", "maxmemory", "1"}), "OK");
  const auto put = [this](const std::string& run) {
    return replicas_[0].steps->PutPart({.job_id = "job", .step = 8, .run_id = run}, kPart);
  };
  EXPECT_EQ(put("new").status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(put("third").status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(put("old").value().current_run, "new");
  Forget(/*restart=*/false);
  EXPECT_EQ(put("new").status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(put("old").value().current_run, "new");
}

}  // namespace
}  // namespace batchplan::testing
