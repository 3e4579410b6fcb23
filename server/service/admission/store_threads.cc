#include "server/service/admission/store_threads.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace batchplan {

StoreThreads::StoreThreads(size_t threads, size_t max_queued_calls)
    : max_queued_calls_(max_queued_calls) {
  const size_t count = std::max<size_t>(threads, 1);
  threads_.reserve(count);
  for (size_t i = 0; i < count; ++i) {
    threads_.emplace_back([this](const std::stop_token& stop) { Work(stop); });
  }
}

StoreThreads::~StoreThreads() { Stop(); }

absl::StatusOr<uint64_t> StoreThreads::TrySubmit(Function call, const std::string& turn) {
  uint64_t ticket = 0;
  {
    MutexLock lock(mutex_);
    if (stopping_) return absl::UnavailableError("the server is shutting down; retry");
    if (waiting_ >= max_queued_calls_) {
      return absl::ResourceExhaustedError(
          absl::StrCat("max_waiting_joins=", max_queued_calls_,
                       " calls wait for the rendezvous store; retry with back-off"));
    }
    ticket = ++last_ticket_;
    const auto behind = turn.empty() ? behind_.end() : behind_.find(turn);
    if (behind != behind_.end()) {
      behind->second.emplace(ticket, Waiting{std::move(call), turn});
    } else {
      const auto mine = queue_.emplace(ticket, Waiting{std::move(call), turn}).first;
      try {
        if (!turn.empty()) behind_.try_emplace(turn);
      } catch (...) {
        queue_.erase(mine);
        throw;
      }
    }
    ++waiting_;
  }
  wake_.notify_one();
  return ticket;
}

void StoreThreads::Submit(Function function) {
  {
    MutexLock lock(mutex_);
    queue_.emplace(++last_ticket_, Waiting{std::move(function), ""});
    ++waiting_;
  }
  wake_.notify_one();
}

bool StoreThreads::Remove(uint64_t ticket) {
  // The call is destroyed outside the lock.
  std::map<uint64_t, Waiting>::node_type removed;
  MutexLock lock(mutex_);
  removed = queue_.extract(ticket);
  if (!removed.empty()) {
    PassOn(removed.mapped().turn);
  } else {
    for (auto behind = behind_.begin(); removed.empty() && behind != behind_.end(); ++behind) {
      removed = behind->second.extract(ticket);
    }
    if (removed.empty()) return false;
  }
  --waiting_;
  return true;
}

void StoreThreads::PassOn(const std::string& turn) {
  const auto behind = turn.empty() ? behind_.end() : behind_.find(turn);
  if (behind == behind_.end()) return;
  if (behind->second.empty()) {
    behind_.erase(behind);
    return;
  }
  queue_.insert(behind->second.extract(behind->second.begin()));
  wake_.notify_one();
}

void StoreThreads::Stop() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
  }
  for (std::jthread& thread : threads_) thread.request_stop();
  // All are stopped before the first is joined, so that together they empty the queue.
  for (std::jthread& thread : threads_) {
    if (thread.joinable()) thread.join();
  }
  // Calls that came after the last thread had looked for the last time.
  std::map<uint64_t, Waiting> dropped;
  std::map<std::string, std::map<uint64_t, Waiting>> dropped_behind;
  MutexLock lock(mutex_);
  dropped.swap(queue_);
  dropped_behind.swap(behind_);
}

void StoreThreads::Work(const std::stop_token& stop) {
  MutexLock lock(mutex_);
  // A stop ends the wait but not the work: the loop ends when the queue is empty.
  while (wake_.wait(lock, stop, [this] {
    mutex_.AssertHeld();
    return !queue_.empty();
  })) {
    auto next = queue_.extract(queue_.begin());
    --waiting_;
    lock.unlock();
    next.mapped().function();
    next.mapped().function = nullptr;  // what it holds is destroyed outside the lock
    lock.lock();
    PassOn(next.mapped().turn);
  }
}

}  // namespace batchplan
