// A FitStore in a Redis that may forget, for replicas that share what they fit.
//
//   auto fits = std::make_shared<RedisFits>(client, absl::Hours(30 * 24));
//   RedisFitStore store(fits);
//   ... whenever Redis may have forgotten ...
//   absl::Status status = fits->RestoreAll();
//
// The keys are batchplan:v1:fit:JOB, one hash a job, forgotten when nothing was reported for
// `retention`. Versions never repeat, so that a state read before its job was forgotten replaces
// nothing. A Replace that is repeated because its connection was lost counts once. Owners have no
// shares here: what bounds the keys is `retention`, and the memory of the Redis.
//
// A replica remembers the last state that it read or wrote of each job, of at most kMaxJobs of
// them, and puts it back where Redis has none: when it is asked for the job, and for all jobs in
// RestoreAll. What the others counted since is lost. A key that is no fit, because it is of another
// kind or has no version, is as good as none. To have a job begin anew on purpose, its state is set
// to nothing:
//   HSET batchplan:v1:fit:JOB state ""
//
// Thread-safe.

#ifndef BATCHPLAN_SERVER_STORE_REDIS_REDIS_FIT_STORE_H_
#define BATCHPLAN_SERVER_STORE_REDIS_REDIS_FIT_STORE_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/store/fit_store.h"
#include "server/store/memory_fit_store.h"
#include "server/store/redis/redis_client.h"

namespace batchplan {

class RedisFits {
 public:
  RedisFits(std::shared_ptr<RedisClient> client, absl::Duration retention);

  absl::StatusOr<StoredFit> Get(const std::string& job_id);
  absl::StatusOr<bool> Replace(const std::string& job_id, uint64_t version,
                               const std::string& state, const std::string& owner);

  // Puts back what Redis has lost of all that is remembered; ends with the first error.
  absl::Status RestoreAll();

  // Jobs whose states are remembered: some 50 MB at most.
  static constexpr size_t kMaxJobs = 4096;

 private:
  absl::StatusOr<StoredFit> Read(const std::string& job_id);
  absl::StatusOr<bool> Write(const std::string& job_id, uint64_t version, const std::string& state);

  const std::shared_ptr<RedisClient> client_;
  const std::string retention_;
  // What tells this store's calls from each other and from all others'.
  const std::string writer_;
  std::atomic<uint64_t> calls_ = 0;
  MemoryFitStore remembered_{kMaxJobs};
};

class RedisFitStore final : public FitStore {
 public:
  explicit RedisFitStore(std::shared_ptr<RedisFits> fits) : fits_(std::move(fits)) {}

  absl::StatusOr<StoredFit> Get(const std::string& job_id) override { return fits_->Get(job_id); }
  absl::StatusOr<bool> Replace(const std::string& job_id, uint64_t version,
                               const std::string& state, const std::string& owner) override {
    return fits_->Replace(job_id, version, state, owner);
  }

 private:
  const std::shared_ptr<RedisFits> fits_;
};

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_STORE_REDIS_REDIS_FIT_STORE_H_
