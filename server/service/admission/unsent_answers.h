// Memory of answers that their callers have not read yet, and whose answers give way when it is too
// much.
//
//   UnsentAnswers unsent({.max_bytes = 512 << 20}, &metrics);
//   absl::StatusOr<uint64_t> ticket = unsent.Begin({.owner = owner, .bytes = n, .cancel = ...});
//   ... the answer is handed to gRPC ...
//   unsent.End(*ticket);   // once it is sent, or its caller is gone
//
// As in admission, the owner that holds most gives way: its oldest answers are cancelled or, as
// long as these are young, its new ones refused. An answer that is alone is admitted at any size.
// Answers that nobody has read after `longest` are cancelled too, since a call need not have a
// deadline.
//
// Thread-safe; a call holds a lock briefly. Logarithmic in the number of answers, except the search
// for the owner that holds most when there is no room.

#ifndef BATCHPLAN_SERVER_SERVICE_ADMISSION_UNSENT_ANSWERS_H_
#define BATCHPLAN_SERVER_SERVICE_ADMISSION_UNSENT_ANSWERS_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/base/clock.h"
#include "server/base/mutex.h"
#include "server/base/periodic.h"
#include "server/telemetry/metrics.h"

namespace batchplan {

struct UnsentAnswersOptions {
  uint64_t max_bytes = uint64_t{512} << 20;
  absl::Duration longest = absl::Minutes(5);
  Clock clock = [] { return std::chrono::steady_clock::now(); };
};

class UnsentAnswers {
 public:
  // About what a call holds beside its answer.
  static constexpr uint64_t kCallBytes = 4096;
  // Younger answers are not cancelled for want of room: they may be on their way.
  static constexpr absl::Duration kPatience = absl::Seconds(5);

  struct Answer {
    std::string owner;
    uint64_t bytes = 0;
    // The holder of the bytes, if other answers share them: they count once for each owner.
    std::shared_ptr<const void> shared = nullptr;
    // Called at most once, before End returns, under the lock. May call End of any answer, on its
    // own thread, and nothing else of this class.
    std::function<void()> cancel;
  };

  UnsentAnswers(UnsentAnswersOptions options, Metrics* metrics);

  UnsentAnswers(const UnsentAnswers&) = delete;
  UnsentAnswers& operator=(const UnsentAnswers&) = delete;

  // A ticket, never 0. ResourceExhausted, naming the limit, with the time after which to try again.
  // May throw std::bad_alloc, which leaves everything as it was.
  absl::StatusOr<uint64_t> Begin(Answer answer);

  void End(uint64_t ticket);

  // Cancels answers that are too old. A thread of this calls it at intervals.
  void CancelOld();

 private:
  using SharedKey = std::pair<std::string, const void*>;
  struct Share {
    uint64_t answers = 0;
    uint64_t bytes = 0;
  };
  struct Entry {
    Answer answer;
    Instant since;
    // Whether it is cancelled, so that its bytes no longer count.
    bool cancelled = false;
  };
  using Entries = std::map<uint64_t, Entry>;

  uint64_t Added(const Answer& answer) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Count(const Answer& answer) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Discount(const Answer& answer) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // `entry` may be gone afterwards.
  void Cancel(Entry& entry) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Forget(uint64_t ticket) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The oldest of the owner's answers that count; the end if there is none.
  Entries::iterator OldestOf(const std::string& owner) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status Full(uint64_t bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const UnsentAnswersOptions options_;
  Metrics* const metrics_;

  Mutex mutex_;
  // The thread that holds the lock and cancels a call. gRPC may end the call on that thread.
  std::atomic<std::thread::id> cancelling_;
  // By ticket, and so in the order in which they began.
  Entries entries_ ABSL_GUARDED_BY(mutex_);
  // Bytes by owner.
  std::map<std::string, uint64_t> owners_ ABSL_GUARDED_BY(mutex_);
  std::map<SharedKey, Share> shares_ ABSL_GUARDED_BY(mutex_);
  uint64_t bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t last_ticket_ ABSL_GUARDED_BY(mutex_) = 0;
  // Last: uses all of the above.
  Periodic old_;
};

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_SERVICE_ADMISSION_UNSENT_ANSWERS_H_
