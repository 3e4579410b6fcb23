#include "server/store/redis/redis_breaker.h"

namespace batchplan {

absl::Status RedisBreaker::Admit(Instant now) {
  std::lock_guard lock(mutex_);
  if (failure_.ok()) return absl::OkStatus();
  if (trying_ || now < retry_at_) return failure_;
  trying_ = true;
  return absl::OkStatus();
}

// Calls that were let in before the failure may still end while another one tries. They then let
// in one more than need be, which is harmless.
bool RedisBreaker::Succeeded() {
  std::lock_guard lock(mutex_);
  const bool news = !failure_.ok();
  failure_ = absl::OkStatus();
  trying_ = false;
  return news;
}

bool RedisBreaker::Failed(Instant now, const absl::Status& why) {
  std::lock_guard lock(mutex_);
  const bool news = failure_.ok();
  failure_ = why;
  retry_at_ = now + retry_delay_;
  trying_ = false;
  return news;
}

}  // namespace batchplan
