// How many lines of one kind may be logged, where anybody can cause them.
//
//   if (const std::optional<uint64_t> left_out = limit.Admit(absl::Now())) Log(...);
//
// Thread-safe.

#ifndef BATCHPLAN_SERVER_TELEMETRY_LOG_LIMIT_H_
#define BATCHPLAN_SERVER_TELEMETRY_LOG_LIMIT_H_

#include <algorithm>
#include <cstdint>
#include <mutex>
#include <optional>
#include <utility>

#include "absl/time/time.h"

namespace batchplan {

class LogLimit {
 public:
  // So many lines a second in the long run, and as many at once after a quiet second.
  explicit LogLimit(double lines_a_second) : rate_(lines_a_second), room_(lines_a_second) {}

  // Whether a line may be written: if so, how many could not be since the last that was.
  std::optional<uint64_t> Admit(absl::Time now) {
    std::lock_guard lock(mutex_);
    // A clock that was set back gives no room, and takes none.
    const double seconds = std::max(0.0, absl::ToDoubleSeconds(now - last_));
    room_ = std::min(rate_, room_ + rate_ * seconds);
    last_ = now;
    if (room_ < 1) {
      ++left_out_;
      return std::nullopt;
    }
    room_ -= 1;
    return std::exchange(left_out_, 0);
  }

 private:
  const double rate_;
  std::mutex mutex_;
  double room_;
  absl::Time last_ = absl::InfinitePast();
  uint64_t left_out_ = 0;
};

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_TELEMETRY_LOG_LIMIT_H_
