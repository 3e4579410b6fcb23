// The stores that replicas share, in one Redis.
//
//   absl::StatusOr<RedisStores> stores = OpenRedisStores("redis://redis:6379/0", {});
//   stores->steps->PutPart(...);
//   stores->fits->Get(...);
//
// Operators of that Redis should read redis_step_store.h, and about fitted costs redis_fit_store.h.

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
  // Called with the reason when other replicas' notifications are not heard, although calls may
  // still work, and with OK when they are heard again. See RedisSubscriberOptions::on_change.
  std::function<void(const absl::Status&)> on_listening_change = nullptr;
  // Measures how long this replica remembers what Redis may forget.
  Clock clock = std::chrono::steady_clock::now;
};

struct RedisStores {
  std::unique_ptr<StepStore> steps;
  std::unique_ptr<FitStore> fits;
};

// A Redis that is down is no error: calls fail until it is there, and no restart is needed.
// InvalidArgument for a Redis Cluster. If Redis does not answer, this waits for up to three times
// the longer of the client's time-outs.
absl::StatusOr<RedisStores> OpenRedisStores(RedisAddress address,
                                            const RedisStoresOptions& options);

// Parses `url` first; InvalidArgument also if redis_address.h does not know its form.
absl::StatusOr<RedisStores> OpenRedisStores(const std::string& url,
                                            const RedisStoresOptions& options);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_STORE_REDIS_REDIS_STORES_H_
