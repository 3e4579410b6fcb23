// A limit on the bytes that are held at the same time.
//
//   ByteBudget budget("max_waiting_bytes", 1 << 30);
//   absl::Status status = budget.Take(bytes);   // ResourceExhausted if there is no room
//   budget.Give(bytes);                         // once for each Take that was OK
//
// Thread-safe, without a lock.

#ifndef BATCHPLAN_SERVER_SERVICE_ADMISSION_BYTE_BUDGET_H_
#define BATCHPLAN_SERVER_SERVICE_ADMISSION_BYTE_BUDGET_H_

#include <atomic>
#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace batchplan {

class ByteBudget {
 public:
  // `flag` is the limit's name in errors.
  ByteBudget(std::string flag, uint64_t limit) : flag_(std::move(flag)), limit_(limit) {}

  absl::Status Take(uint64_t bytes) {
    const uint64_t held = held_.fetch_add(bytes, std::memory_order_relaxed);
    if (bytes <= limit_ && held <= limit_ - bytes) return absl::OkStatus();
    Give(bytes);
    return absl::ResourceExhaustedError(absl::StrCat("the messages that wait take ", held,
                                                     " bytes; ", bytes, " more are beyond ", flag_,
                                                     "=", limit_, "; retry with back-off"));
  }

  void Give(uint64_t bytes) { held_.fetch_sub(bytes, std::memory_order_relaxed); }

  uint64_t held() const { return held_.load(std::memory_order_relaxed); }

 private:
  const std::string flag_;
  const uint64_t limit_;
  std::atomic<uint64_t> held_ = 0;
};

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_SERVICE_ADMISSION_BYTE_BUDGET_H_
