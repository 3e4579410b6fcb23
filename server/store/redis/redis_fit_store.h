// A FitStore in a Redis, for replicas that share what they fit.
//
// The keys are batchplan:v1:fit:JOB, one hash a job, forgotten when nothing was reported for
// `retention`. Versions never repeat, so that a state read before its job was forgotten replaces
// nothing. A Replace that is repeated because its connection was lost counts once. Owners have no
// shares here: what bounds the keys is `retention`, and the memory of the Redis.

#ifndef BATCHPLAN_SERVER_STORE_REDIS_REDIS_FIT_STORE_H_
#define BATCHPLAN_SERVER_STORE_REDIS_REDIS_FIT_STORE_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/store/fit_store.h"
#include "server/store/redis/redis_client.h"

namespace batchplan {

class RedisFitStore : public FitStore {
 public:
  RedisFitStore(std::shared_ptr<RedisClient> client, absl::Duration retention);

  absl::StatusOr<StoredFit> Get(const std::string& job_id) override;
  absl::StatusOr<bool> Replace(const std::string& job_id, uint64_t version,
                               const std::string& state, const std::string& owner) override;

 private:
  const std::shared_ptr<RedisClient> client_;
  const std::string retention_;
  // What tells this store's calls from each other and from all others'.
  const std::string writer_;
  std::atomic<uint64_t> calls_ = 0;
};

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_STORE_REDIS_REDIS_FIT_STORE_H_
