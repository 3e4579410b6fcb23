#include "server/service/worker_pool.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace batchplan {

// A thread counts as idle before it first runs: work submitted at once must find room.
WorkerPool::WorkerPool(size_t threads, size_t max_queued)
    : max_queued_(max_queued), idle_threads_(std::max<size_t>(threads, 1)) {
  const size_t count = idle_threads_;
  threads_.reserve(count);
  for (size_t i = 0; i < count; ++i) {
    threads_.emplace_back([this](const std::stop_token& stop) { Work(stop); });
  }
}

WorkerPool::~WorkerPool() { Stop(); }

absl::Status WorkerPool::TrySubmit(Job job) {
  {
    std::lock_guard lock(mutex_);
    if (stopped_) return absl::UnavailableError("the server is shutting down");
    if (queue_.size() >= max_queued_ + idle_threads_) {
      return absl::ResourceExhaustedError(
          absl::StrCat("the planning queue is full: all ", threads_.size(),
                       " planning threads are busy and max_queued_plans=", max_queued_,
                       " requests wait; retry with back-off"));
    }
    queue_.push_back(std::move(job));
  }
  wake_.notify_one();
  return absl::OkStatus();
}

void WorkerPool::Stop() {
  {
    std::lock_guard lock(mutex_);
    stopped_ = true;
  }
  for (std::jthread& thread : threads_) thread.request_stop();
  // All are told before the first is waited for: they empty the queue together.
  for (std::jthread& thread : threads_) {
    if (thread.joinable()) thread.join();
  }
}

void WorkerPool::Work(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  // A stop ends the wait but not the work: the loop ends when the queue is empty.
  while (wake_.wait(lock, stop, [this] { return !queue_.empty(); })) {
    Job job = std::move(queue_.front());
    queue_.pop_front();
    --idle_threads_;
    lock.unlock();
    job();
    job = nullptr;  // what the job holds is destroyed outside the lock
    lock.lock();
    ++idle_threads_;
  }
}

}  // namespace batchplan
