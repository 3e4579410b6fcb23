// The contracts of the stores, for two replicas over one redis-server.

#include <gtest/gtest.h>

#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "server/store/redis/redis_stores.h"
#include "tests/server/store/fit_store_contract.h"
#include "tests/server/store/forwarding_step_store.h"
#include "tests/server/store/manual_clock.h"
#include "tests/server/store/step_store_contract.h"
#include "tests/server/store/step_store_model.h"
#include "tests/support/redis_server.h"

namespace batchplan::testing {
namespace {

// One server for the whole program, emptied for each test.
RedisServer& EmptyRedis() {
  static RedisServer redis;
  redis.Command({"FLUSHALL"});
  return redis;
}

RedisStores Open(const RedisServer& redis, const StepStoreOptions& lifetimes,
                 const ManualClock& clock = ManualClock()) {
  // Long, so that no test fails on a busy machine.
  const RedisClientOptions patient = {.connect_timeout = absl::Seconds(20),
                                      .command_timeout = absl::Seconds(20)};
  absl::StatusOr<RedisStores> stores = OpenRedisStores(
      redis.url(), {.lifetimes = lifetimes, .client = patient, .clock = clock.clock()});
  EXPECT_TRUE(stores.ok()) << stores.status();
  return *std::move(stores);
}

// A store that can also wait until its listener has heard the other's last message. Messages of a
// channel keep their order.
class TappedStore : public ForwardingStepStore {
 public:
  explicit TappedStore(std::unique_ptr<StepStore> store)
      : ForwardingStepStore(store.get()), store_(std::move(store)) {
    TappedStore::SetListener(nullptr);
  }
  ~TappedStore() override { store_->SetListener(nullptr); }

  void SetListener(Listener listener) override {
    store_->SetListener([this, listener](const StepKey& key, StepEvent event) {
      if (key.job_id == kMark) {
        std::lock_guard lock(mutex_);
        heard_ = key.step;
        changed_.notify_all();
      } else if (listener) {
        listener(key, event);
      }
    });
  }

  // Returns once the message with `mark` is heard.
  void Await(uint64_t mark) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this, mark] { return heard_ >= mark; });
  }

  static constexpr const char* kMark = "the test's mark";

 private:
  const std::unique_ptr<StepStore> store_;
  std::mutex mutex_;
  std::condition_variable changed_;
  uint64_t heard_ = 0;
};

class RedisStepStores : public StepStores {
 public:
  explicit RedisStepStores(const StepStoreOptions& lifetimes)
      : redis_(EmptyRedis()),
        first_(Open(redis_, lifetimes, clock_).steps),
        second_(Open(redis_, lifetimes, clock_).steps) {}

  StepStore& store(int replica) override { return replica == 0 ? first_ : second_; }

  // Redis' clock can't be moved, but the remaining time of each key can.
  void Advance(absl::Duration by) override {
    clock_.Advance(by);
    EXPECT_EQ(redis_.Command({"EVAL",
                              "for _, key in ipairs(redis.call('KEYS', '*')) do "
                              "  local left = redis.call('PTTL', key) "
                              "  if left < 0 then return 'a key that lives for ever' end "
                              "  redis.call('PEXPIRE', key, left - ARGV[1]) "
                              "end return 'OK'",
                              "0", std::to_string(absl::ToInt64Milliseconds(by))}),
              "OK");
  }

  void AwaitNotifications() override {
    ++mark_;
    EXPECT_EQ(redis_.Command({"PUBLISH", "batchplan:v1:steps",
                              std::string(TappedStore::kMark) + "/" + std::to_string(mark_)}),
              "2");
    first_.Await(mark_);
    second_.Await(mark_);
  }

 private:
  RedisServer& redis_;
  ManualClock clock_;
  TappedStore first_;
  TappedStore second_;
  uint64_t mark_ = 0;
};

std::unique_ptr<StepStores> MakeRedisStepStores(const StepStoreOptions& lifetimes) {
  return std::make_unique<RedisStepStores>(lifetimes);
}

INSTANTIATE_TEST_SUITE_P(Redis, StepStoreContract,
                         ::testing::Values(StepStoresFactory{"RedisStepStore",
                                                             MakeRedisStepStores}));

class RedisFitStores : public FitStores {
 public:
  FitStore& store(int replica) override { return replica == 0 ? *first_ : *second_; }

 private:
  RedisServer& redis_ = EmptyRedis();
  const std::unique_ptr<FitStore> first_ = Open(redis_, {}).fits;
  const std::unique_ptr<FitStore> second_ = Open(redis_, {}).fits;
};

std::unique_ptr<FitStores> MakeRedisFitStores() { return std::make_unique<RedisFitStores>(); }

INSTANTIATE_TEST_SUITE_P(Redis, FitStoreContract,
                         ::testing::Values(FitStoresFactory{"RedisFitStore", MakeRedisFitStores}));

}  // namespace
}  // namespace batchplan::testing
