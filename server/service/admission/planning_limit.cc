#include "server/service/admission/planning_limit.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/service/admission/rpc_status.h"

namespace batchplan {

using std::chrono::steady_clock;

Instant SteadyDeadline(std::chrono::system_clock::time_point deadline) {
  using std::chrono::system_clock;
  // gRPC's infinite future is the last instant of that clock.
  if (deadline == system_clock::time_point::max()) return Instant::max();
  const system_clock::time_point wall = system_clock::now();
  const Instant now = steady_clock::now();
  // Keeps both clocks from overflowing, whatever deadline a caller sets.
  constexpr std::chrono::hours kLongest(24 * 365 * 10);
  if (deadline > wall + kLongest) return now + kLongest;
  return deadline < wall ? now : now + (deadline - wall);
}

absl::Status Caller::StillWaiting() const {
  // Checked first: gRPC also cancels a call when its deadline passes.
  if (steady_clock::now() >= deadline) {
    return absl::DeadlineExceededError("the call's deadline passed before it was answered");
  }
  if (stop.stop_requested()) return absl::CancelledError("the call was cancelled");
  return absl::OkStatus();
}

PlanningLimit::PlanningLimit(absl::Duration limit)
    : limit_(limit), thread_([this](const std::stop_token& stop) { Run(stop); }) {}

PlanningLimit::Watch::Watch(PlanningLimit* limit, const std::stop_token& caller)
    : limit_(limit),
      end_(steady_clock::now() + absl::ToChronoNanoseconds(limit->limit_)),
      on_caller_(caller, Stop{&stop_}) {
  std::list<Watch*> watch = {this};
  place_ = watch.begin();
  bool first = false;
  {
    MutexLock lock(limit_->mutex_);
    // If two watches begin at once, one may end slightly earlier than the watch before it.
    limit_->watches_.splice(limit_->watches_.end(), watch);
    first = !std::exchange(limit_->begun_, true);
  }
  // Otherwise the thread waits for the end of an earlier watch, and then finds this one.
  if (first) limit_->changed_.notify_one();
}

PlanningLimit::Watch::~Watch() {
  MutexLock lock(limit_->mutex_);
  limit_->watches_.erase(place_);
}

absl::Status PlanningLimit::Error() const {
  absl::Status status = absl::ResourceExhaustedError(absl::StrCat(
      "planning took longer than the server's max_planning_seconds=", absl::ToDoubleSeconds(limit_),
      ", and would again; ask for a lower effort, fewer sequences or fewer passes"));
  SetRetryAfter(-absl::InfiniteDuration(), &status);
  return status;
}

void PlanningLimit::Run(const std::stop_token& stop) {
  MutexLock lock(mutex_);
  while (!stop.stop_requested()) {
    // Watches at the front may be over but not yet destroyed.
    const auto next = std::find_if(watches_.begin(), watches_.end(),
                                   [](const Watch* watch) { return !watch->over(); });
    if (next == watches_.end()) {
      begun_ = false;
      changed_.wait(lock, stop, [this] {
        mutex_.AssertHeld();
        return begun_;
      });
    } else if (steady_clock::now() < (*next)->end_) {
      const steady_clock::time_point end = (*next)->end_;
      changed_.wait_until(lock, stop, end, [] { return false; });
    } else {
      (*next)->over_.store(true);
      (*next)->stop_.request_stop();
    }
  }
}

}  // namespace batchplan
