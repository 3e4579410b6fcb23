// Fits over a redis-server that forgets or damages them.

#include "server/store/redis/redis_fit_store.h"

#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <thread>
#include <vector>

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

class ForgottenFitsTest : public ::testing::Test {
 protected:
  static void Replace(RedisStores& replica, const std::string& state) {
    const uint64_t version = replica.fits->Get("job")->version;
    ASSERT_TRUE(replica.fits->Replace("job", version, state, "owner").value());
  }

  RedisServer redis_;
  RedisStores replicas_[2] = {Open(redis_), Open(redis_)};
};

TEST_F(ForgottenFitsTest, TheReplicaThatReadOrWroteAFitLastPutsItBack) {
  Replace(replicas_[0], "one");
  Replace(replicas_[1], "two");
  redis_.Command({"FLUSHALL"});
  EXPECT_EQ(replicas_[1].fits->Get("job")->state, "two");
  EXPECT_EQ(replicas_[0].fits->Get("job")->state, "two");
  redis_.Command({"FLUSHALL"});
  EXPECT_EQ(replicas_[0].fits->Get("job")->state, "two") << "read last, though not written";
}

TEST_F(ForgottenFitsTest, AfterARestartTheyArePutBackThoughNobodyAsksForThem) {
  Replace(replicas_[0], "one");
  redis_.Kill();
  redis_.Start();
  // ctest ends a test that waits forever.
  while (redis_.Command({"EXISTS", "batchplan:v1:fit:job"}) != "1") {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  EXPECT_EQ(replicas_[1].fits->Get("job")->state, "one") << "which did not know it";
}

TEST_F(ForgottenFitsTest, AFitThatBeganAnewIsNotReplacedByAnOlderOne) {
  Replace(replicas_[0], "one");
  redis_.Command({"FLUSHALL"});
  Replace(replicas_[1], "anew");
  EXPECT_EQ(replicas_[0].fits->Get("job")->state, "anew");
}

TEST_F(ForgottenFitsTest, AStateThatIsSetToNothingBeginsAnewForAllReplicas) {
  Replace(replicas_[0], "one");
  ASSERT_EQ(replicas_[1].fits->Get("job")->state, "one");
  redis_.Command({"HSET", "batchplan:v1:fit:job", "state", ""});
  for (RedisStores& replica : replicas_) EXPECT_EQ(replica.fits->Get("job")->state, "");
  redis_.Command({"FLUSHALL"});
  for (RedisStores& replica : replicas_) EXPECT_EQ(replica.fits->Get("job")->state, "");
}

TEST_F(ForgottenFitsTest, AVersionThatIsNoneIsReplaced) {
  for (const char* version : {"x", "", "-1", "1.5", "99999999999999999999"}) {
    redis_.Command({"DEL", "batchplan:v1:fit:job"});
    redis_.Command({"HSET", "batchplan:v1:fit:job", "state", "spoiled", "version", version});
    RedisStores stranger = Open(redis_);
    EXPECT_EQ(stranger.fits->Get("job")->version, 0) << version;
    Replace(stranger, "one");
    EXPECT_EQ(stranger.fits->Get("job")->state, "one") << version;
  }
}

}  // namespace
}  // namespace batchplan::testing
