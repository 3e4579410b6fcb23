#include "server/service/planning_pool.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/service/rpc_status.h"

namespace batchplan {
namespace {

// Whoever is refused comes back neither at once nor long after there is room.
constexpr absl::Duration kSoonestRetry = absl::Milliseconds(50);
constexpr absl::Duration kLatestRetry = absl::Seconds(10);

}  // namespace

// A thread counts as idle before it first runs: work submitted at once must find room.
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
  const uint64_t cost = task.sequences + kTaskCost;
  // Ended or destroyed outside the lock.
  std::vector<Waiting> pushed_out;
  absl::Status refusal;
  uint64_t ticket = 0;
  {
    std::lock_guard lock(mutex_);
    if (stopped_) return absl::UnavailableError("the server is shutting down");
    const FairQueue::Bounds bounds = {.waiting = options_.max_queued_plans + idle_threads_,
                                      .cost = options_.max_queued_sequences};
    const FairQueue::Room room = queue_.MakeRoom(task.job, cost, bounds);
    if (!room.admitted) return Full(bounds);
    const absl::Duration wait = EstimatedTime(queue_.CostAhead(task.job));
    if (wait > std::max(task.time_left, absl::ZeroDuration())) {
      metrics_->RecordRefusal(Refusal::kDeadline);
      return absl::DeadlineExceededError(absl::StrCat(
          "the work queued ahead takes an estimated ", absl::FormatDuration(wait),
          ", longer than the ", absl::FormatDuration(task.time_left), " to the call's deadline"));
    }
    // What may fail for want of memory comes first, so that it changes nothing.
    if (!room.pushed_out.empty()) {
      refusal = absl::ResourceExhaustedError(
          "the planning queue is full and this call's job holds most of it: its newest call gave "
          "way to another job's; retry with back-off");
      SetRetryAfter(RetryDelay(), &refusal);
    }
    pushed_out.reserve(room.pushed_out.size());
    ticket = ++last_ticket_;
    const auto mine = waiting_.try_emplace(ticket).first;
    try {
      queue_.Push(task.job, ticket, cost);
    } catch (...) {
      waiting_.erase(mine);
      throw;
    }
    mine->second = {.task = std::move(task), .cost = cost, .since = options_.clock()};
    for (const uint64_t out : room.pushed_out) {
      queue_.Remove(out);
      const auto found = waiting_.find(out);
      pushed_out.push_back(std::move(found->second));
      waiting_.erase(found);
      metrics_->RecordRefusal(Refusal::kPushedOut);
    }
    ShowQueue();
  }
  wake_.notify_one();
  for (const Waiting& out : pushed_out) out.task.refuse(refusal);
  return ticket;
}

absl::Status PlanningPool::Full(const FairQueue::Bounds& bounds) {
  metrics_->RecordRefusal(Refusal::kQueueFull);
  const std::string full =
      queue_.waiting() >= bounds.waiting
          ? absl::StrCat("all ", threads_.size(), " planning threads are busy and ",
                         "max_queued_plans=", options_.max_queued_plans, " requests wait")
          : absl::StrCat("requests of ", queue_.cost(), " sequences are planned or wait, of ",
                         "max_queued_sequences=", options_.max_queued_sequences);
  absl::Status status = absl::ResourceExhaustedError(
      absl::StrCat("the planning queue is full: ", full, "; retry with back-off"));
  SetRetryAfter(RetryDelay(), &status);
  return status;
}

absl::Duration PlanningPool::EstimatedTime(uint64_t cost) const {
  return absl::Seconds(rate_.SecondsFor(cost) /
                       static_cast<double>(std::max<size_t>(options_.threads, 1)));
}

absl::Duration PlanningPool::RetryDelay() const {
  return std::clamp(EstimatedTime(queue_.waiting_cost()), kSoonestRetry, kLatestRetry);
}

void PlanningPool::ShowQueue() { metrics_->RecordQueue(queue_.waiting(), queue_.cost()); }

bool PlanningPool::Remove(uint64_t ticket) {
  Waiting removed;
  {
    std::lock_guard lock(mutex_);
    if (!queue_.Remove(ticket)) return false;
    const auto found = waiting_.find(ticket);
    removed = std::move(found->second);
    waiting_.erase(found);
    ShowQueue();
  }
  return true;
}

void PlanningPool::Stop() {
  {
    std::lock_guard lock(mutex_);
    stopped_ = true;
  }
  wake_.notify_all();
  for (std::thread& thread : threads_) {
    if (thread.joinable()) thread.join();
  }
}

void PlanningPool::Work() {
  std::unique_lock lock(mutex_);
  while (true) {
    // A stop ends the wait but not the work: the threads end when the queue is empty.
    wake_.wait(lock, [this] { return queue_.waiting() > 0 || stopped_; });
    const std::optional<uint64_t> ticket = queue_.Pop();
    if (!ticket.has_value()) return;
    const auto found = waiting_.find(*ticket);
    Waiting taken = std::move(found->second);
    waiting_.erase(found);
    --idle_threads_;
    ShowQueue();
    lock.unlock();
    const Instant start = options_.clock();
    metrics_->RecordQueueSeconds(std::chrono::duration<double>(start - taken.since).count());
    taken.task.run();
    taken.task = {};
    const double seconds = std::chrono::duration<double>(options_.clock() - start).count();
    lock.lock();
    rate_.Observe(taken.cost, seconds);
    queue_.Done(*ticket);
    ++idle_threads_;
    ShowQueue();
  }
}

}  // namespace batchplan
