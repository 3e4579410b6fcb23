#include "server/service/admission/planning_pool.h"

#include <algorithm>
#include <new>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/service/admission/rpc_status.h"

namespace batchplan {
namespace {

// Bounds on when a refused caller should retry: neither at once, nor long after there is room.
constexpr absl::Duration kSoonestRetry = absl::Milliseconds(50);
constexpr absl::Duration kLatestRetry = absl::Seconds(10);

}  // namespace

// Threads count as idle before they run, so that work submitted at once finds room.
PlanningPool::PlanningPool(PlanningPoolOptions options, Metrics* metrics)
    : options_(std::move(options)),
      metrics_(metrics),
      idle_threads_(std::max<size_t>(options_.threads, 1)) {
  const size_t count = idle_threads_;
  threads_.reserve(count);
  try {
    for (size_t i = 0; i < count; ++i) threads_.emplace_back([this] { Work(); });
  } catch (...) {
    Stop();
    throw;
  }
}

PlanningPool::~PlanningPool() { Stop(); }

absl::StatusOr<uint64_t> PlanningPool::Submit(PlanningTask task) {
  const uint64_t cost = task.cost + kTaskCost;
  WorkRate::Kind kind = {.owner = task.owner, .job = task.job, .effort = task.effort};
  // These tasks are refused and destroyed outside the lock.
  std::vector<Waiting> pushed_out;
  absl::Status refusal;
  uint64_t ticket = 0;
  bool idle = false;
  {
    MutexLock lock(mutex_);
    if (stopped_) return absl::UnavailableError("the server is shutting down");
    const absl::Duration time = rate_.TimeFor(kind, cost);
    // A call that an idle thread can take does not count as waiting.
    const bool last_is_not_for_it =
        idle_threads_ > 0 && !queue_.MayHaveLast(task.owner, task.job, time);
    const FairQueue::Bounds bounds = {
        .waiting = options_.max_queued_plans + idle_threads_ - (last_is_not_for_it ? 1 : 0),
        .cost = options_.max_queued_sequences};
    const FairQueue::Room room = queue_.MakeRoom(task.owner, task.job, cost, bounds);
    if (!room.admitted) return Full(bounds);
    // A call of an unknown kind is not refused because others took long.
    const absl::Duration wait =
        rate_.Knows(kind) ? WallTime(queue_.TimeAhead(task.owner, task.job)) : absl::ZeroDuration();
    if (wait > kDeadlineMargin * std::max(task.time_left, absl::ZeroDuration())) {
      metrics_->RecordRefusal(Refusal::kDeadline);
      return absl::DeadlineExceededError(
          absl::StrCat("the work queued ahead takes an estimated ", absl::FormatDuration(wait),
                       ", more than ", kDeadlineMargin, " times the ",
                       absl::FormatDuration(task.time_left), " to the call's deadline"));
    }
    const Instant now = options_.clock();
    // Everything that may run out of memory comes first, so that a failure changes nothing.
    if (!room.pushed_out.empty()) {
      refusal = absl::ResourceExhaustedError(
          "the planning queue is full and this call's job, or its caller, holds most of it: its "
          "newest call gave way to another's; retry with back-off");
      SetRetryAfter(RetryDelay(), &refusal);
    }
    pushed_out.reserve(room.pushed_out.size());
    ticket = ++last_ticket_;
    const auto mine = waiting_.try_emplace(ticket).first;
    try {
      queue_.Push({.owner = task.owner, .job = task.job, .id = ticket, .cost = cost, .time = time},
                  now);
    } catch (...) {
      waiting_.erase(mine);
      throw;
    }
    mine->second = {.task = std::move(task), .kind = std::move(kind), .cost = cost, .since = now};
    for (const uint64_t out : room.pushed_out) {
      queue_.Remove(out);
      const auto found = waiting_.find(out);
      pushed_out.push_back(std::move(found->second));
      waiting_.erase(found);
      metrics_->RecordRefusal(Refusal::kPushedOut);
    }
    ShowQueue();
    idle = idle_threads_ > 0;
  }
  if (idle) wake_.notify_one();
  for (const Waiting& out : pushed_out) out.task.refuse(refusal);
  return ticket;
}

absl::Status PlanningPool::Full(const FairQueue::Bounds& bounds) {
  metrics_->RecordRefusal(Refusal::kQueueFull);
  const std::string full =
      queue_.waiting() >= bounds.waiting
          ? absl::StrCat("max_queued_plans=", options_.max_queued_plans, " requests wait for ",
                         threads_.size(), " planning threads")
          : absl::StrCat("requests of ", queue_.cost(), " sequences are planned or wait, of ",
                         "max_queued_sequences=", options_.max_queued_sequences);
  absl::Status status = absl::ResourceExhaustedError(
      absl::StrCat("the planning queue is full: ", full, "; retry with back-off"));
  SetRetryAfter(RetryDelay(), &status);
  return status;
}

absl::Duration PlanningPool::WallTime(absl::Duration thread_time) const {
  return thread_time / static_cast<double>(std::max<size_t>(options_.threads, 1));
}

absl::Duration PlanningPool::RetryDelay() const {
  return std::clamp(WallTime(queue_.waiting_time()), kSoonestRetry, kLatestRetry);
}

void PlanningPool::ShowQueue() { metrics_->RecordQueue(queue_.waiting(), queue_.cost()); }

bool PlanningPool::Remove(uint64_t ticket) {
  Waiting removed;
  {
    MutexLock lock(mutex_);
    if (!queue_.Remove(ticket)) return false;
    const auto found = waiting_.find(ticket);
    removed = std::move(found->second);
    waiting_.erase(found);
    ShowQueue();
  }
  return true;
}

bool PlanningPool::idle() {
  MutexLock lock(mutex_);
  return queue_.empty();
}

void PlanningPool::Stop() {
  {
    MutexLock lock(mutex_);
    stopped_ = true;
  }
  wake_.notify_all();
  for (std::thread& thread : threads_) {
    if (thread.joinable()) thread.join();
  }
}

void PlanningPool::Work() {
  MutexLock lock(mutex_);
  while (true) {
    // A stop ends the wait but not the work: threads end when the queue is empty. A waiting call
    // may have to wait until another thread's task ends.
    std::optional<uint64_t> ticket;
    wake_.wait(lock, [&] {
      mutex_.AssertHeld();
      ticket = queue_.Pop(idle_threads_);
      return ticket.has_value() || (stopped_ && queue_.waiting() == 0);
    });
    if (!ticket.has_value()) return;
    const auto found = waiting_.find(*ticket);
    Waiting taken = std::move(found->second);
    waiting_.erase(found);
    --idle_threads_;
    // A call may have waited for another thread's task to end.
    const bool next = queue_.waiting() > 0 && idle_threads_ > 0;
    ShowQueue();
    lock.unlock();
    if (next) wake_.notify_one();
    const WorkRate::Kind kind = std::move(taken.kind);
    const uint64_t cost = taken.cost;
    const absl::Duration time = Run(std::move(taken));
    lock.lock();
    try {
      rate_.Observe(kind, cost, time);
    } catch (const std::bad_alloc&) {
      // The kind's rate stays unknown.
    }
    queue_.Done(*ticket, time, options_.clock());
    ++idle_threads_;
    ShowQueue();
    // After a stop, all threads have to see that the queue is empty.
    if (stopped_) wake_.notify_all();
  }
}

absl::Duration PlanningPool::Run(Waiting taken) {
  const Instant start = options_.clock();
  metrics_->RecordQueueSeconds(std::chrono::duration<double>(start - taken.since).count());
  taken.task.run();
  taken.task = {};
  return absl::FromChrono(options_.clock() - start);
}

}  // namespace batchplan
