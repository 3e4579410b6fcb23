// Keeps calls away from a Redis that does not answer, so that not each of them waits in vain: after
// a failure, calls fail at once for a while, then one call at a time tries.
//
//   if (absl::Status status = breaker.Admit(now); !status.ok()) return status;
//   ...
//   answered ? breaker.Succeeded() : breaker.Failed(now, why);    // always one of them
//
// Thread-safe, a lock of a few instructions.

#ifndef BATCHPLAN_SERVER_STORE_REDIS_REDIS_BREAKER_H_
#define BATCHPLAN_SERVER_STORE_REDIS_REDIS_BREAKER_H_

#include <mutex>

#include "absl/status/status.h"
#include "server/base/clock.h"

namespace batchplan {

class RedisBreaker {
 public:
  explicit RedisBreaker(Instant::duration retry_delay) : retry_delay_(retry_delay) {}

  // Ok if the caller may go on; otherwise the last failure.
  absl::Status Admit(Instant now);

  // Each returns whether that is news: the first success after a failure, the first failure.
  bool Succeeded();
  bool Failed(Instant now, const absl::Status& why);

 private:
  const Instant::duration retry_delay_;

  std::mutex mutex_;
  // Guarded by mutex_. Ok: all may go on.
  absl::Status failure_;
  Instant retry_at_;
  bool trying_ = false;
};

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_STORE_REDIS_REDIS_BREAKER_H_
