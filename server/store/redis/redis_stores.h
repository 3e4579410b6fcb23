// The stores that replicas share, in one Redis.
//
//   absl::StatusOr<RedisStores> stores = OpenRedisStores("redis://redis:6379/0", {});
//   stores->steps->PutPart(...);
//   stores->fits->Get(...);
//
// What an operator of that Redis needs to know stands in redis_step_store.h, and of fitted costs in
// redis_fit_store.h.

#ifndef BATCHPLAN_SERVER_STORE_REDIS_REDIS_STORES_H_
#define BATCHPLAN_SERVER_STORE_REDIS_REDIS_STORES_H_

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/base/clock.h"
#include "server/store/fit_store.h"
#include "server/store/redis/redis_address.h"
#include "server/store/redis/redis_client.h"
#include "server/store/step_store.h"

namespace batchplan {

struct RedisStoresOptions {
  StepStoreOptions lifetimes = {};
  // How long a job's fitted cost model is kept after its last report.
  absl::Duration fit_retention = absl::Hours(30 * 24);
  RedisClientOptions client = {};
  // Told the reason when other replicas' notifications are not heard, though calls may well go on,
  // and ok when they are heard again. As RedisSubscriberOptions::on_change.
  std::function<void(const absl::Status&)> on_listening_change = nullptr;
  // For what this replica remembers of what Redis may forget.
  Clock clock = std::chrono::steady_clock::now;
};

struct RedisStores {
  std::unique_ptr<StepStore> steps;
  std::unique_ptr<FitStore> fits;
};

// A Redis that is down is no error: calls fail until it is there, and it is found without a
// restart. InvalidArgument if it is one of a Redis Cluster. Takes at most three times the longer of
// the client's time-outs, which it may wait for a Redis that does not answer.
absl::StatusOr<RedisStores> OpenRedisStores(RedisAddress address,
                                            const RedisStoresOptions& options);

// The same; InvalidArgument also if `url` is none that redis_address.h knows.
absl::StatusOr<RedisStores> OpenRedisStores(const std::string& url,
                                            const RedisStoresOptions& options);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_STORE_REDIS_REDIS_STORES_H_
