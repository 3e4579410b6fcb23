// A clock that stands still until a test advances it. Thread-safe.

#ifndef BATCHPLAN_TESTS_SERVER_STORE_MANUAL_CLOCK_H_
#define BATCHPLAN_TESTS_SERVER_STORE_MANUAL_CLOCK_H_

#include <atomic>
#include <chrono>
#include <memory>

#include "absl/time/time.h"
#include "server/base/clock.h"

namespace batchplan::testing {

class ManualClock {
 public:
  // Begins an hour after the epoch, so that there is a time before it.
  ManualClock() : now_(std::make_shared<std::atomic<Instant>>(Instant(std::chrono::hours(1)))) {}

  Instant now() const { return *now_; }
  void Advance(absl::Duration by) { *now_ = now() + absl::ToChronoNanoseconds(by); }

  // May outlive this.
  Clock clock() const {
    return [now = now_] { return now->load(); };
  }

 private:
  std::shared_ptr<std::atomic<Instant>> now_;
};

}  // namespace batchplan::testing

#endif  // BATCHPLAN_TESTS_SERVER_STORE_MANUAL_CLOCK_H_
