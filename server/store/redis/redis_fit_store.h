// A FitStore in a Redis that may forget, for replicas that share what they fit.
//
//   auto fits = std::make_shared<RedisFits>(client, absl::Hours(30 * 24));
//   RedisFitStore store(fits);
//   ... whenever Redis may have forgotten ...
//   absl::Status status = fits->RestoreAll();
//
// Keys are batchplan:v1:fit:JOB, one hash a job, which expires `retention` after the last report.
// Versions never repeat: a state that was read before its job was forgotten replaces nothing. A
// Replace that is repeated after a lost connection counts once. Owners have no shares here; keys
// are bounded by `retention` and by the memory of Redis.
//
// A replica remembers the last state that it read or wrote of each job, for at most kMaxJobs jobs.
// If Redis has lost it, the replica puts it back: when asked for the job, and for all jobs in
// RestoreAll. What other replicas counted since then is lost. A key of another type, or without a
// version, counts as missing. To start a job's fit anew, clear its state:
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

  // Puts back the remembered states that Redis has lost; stops at the first error.
  absl::Status RestoreAll();

  // The most jobs whose states are remembered: at most about 50 MB.
  static constexpr size_t kMaxJobs = 4096;

 private:
  absl::StatusOr<StoredFit> Read(const std::string& job_id);
  absl::StatusOr<bool> Write(const std::string& job_id, uint64_t version, const std::string& state);

  const std::shared_ptr<RedisClient> client_;
  const std::string retention_;
  // With a number of the call, distinguishes it from every other call of any replica.
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
