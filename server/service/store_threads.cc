#include "server/service/store_threads.h"

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

absl::Status StoreThreads::TrySubmit(Function call) {
  {
    std::lock_guard lock(mutex_);
    if (stopping_) return absl::UnavailableError("the server is shutting down; retry");
    if (queue_.size() >= max_queued_calls_) {
      return absl::ResourceExhaustedError(
          absl::StrCat("max_waiting_joins=", max_queued_calls_,
                       " calls wait for the rendezvous store; retry with back-off"));
    }
    queue_.push_back(std::move(call));
  }
  wake_.notify_one();
  return absl::OkStatus();
}

void StoreThreads::Submit(Function function) {
  {
    std::lock_guard lock(mutex_);
    queue_.push_back(std::move(function));
  }
  wake_.notify_one();
}

void StoreThreads::Stop() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  for (std::jthread& thread : threads_) thread.request_stop();
  // All are told before the first is waited for: they empty the queue together.
  for (std::jthread& thread : threads_) {
    if (thread.joinable()) thread.join();
  }
  // What came after the last look of the last thread.
  std::deque<Function> dropped;
  std::lock_guard lock(mutex_);
  dropped.swap(queue_);
}

void StoreThreads::Work(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  // A stop ends the wait but not the work: the loop ends when the queue is empty.
  while (wake_.wait(lock, stop, [this] { return !queue_.empty(); })) {
    Function function = std::move(queue_.front());
    queue_.pop_front();
    lock.unlock();
    function();
    function = nullptr;  // what it holds is destroyed outside the lock
    lock.lock();
  }
}

}  // namespace batchplan
