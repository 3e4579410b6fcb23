#include "batchplan/in_process_connection.h"

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <new>
#include <stop_token>
#include <thread>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "proto/batchplan/v1/convert.h"
#include "proto/batchplan/v1/known_fields.h"
#include "server/checker/check_plan.h"
#include "server/planner/make_plan.h"

namespace batchplan {
namespace {

// Requests a stop after `timeout`, unless destroyed before. Uses the steady clock: Abseil's waits
// use one that people and NTP set.
class StopAfter {
 public:
  explicit StopAfter(absl::Duration timeout) {
    // A longer timeout would overflow the clock.
    if (timeout > absl::Hours(24 * 365)) return;
    const auto end = std::chrono::steady_clock::now() + absl::ToChronoNanoseconds(timeout);
    waiter_ = std::jthread([this, end](const std::stop_token& done) {
      std::unique_lock lock(mutex_);
      over_.wait_until(lock, done, end, [] { return false; });
      if (!done.stop_requested()) source_.request_stop();
    });
  }
  StopAfter(const StopAfter&) = delete;
  StopAfter& operator=(const StopAfter&) = delete;

  std::stop_token token() const { return source_.get_token(); }

 private:
  std::stop_source source_;
  std::mutex mutex_;
  std::condition_variable_any over_;
  // The last member, so that it is joined before what it uses is destroyed.
  std::jthread waiter_;
};

absl::Status TookTooLong(const v1::PlanBatchRequest& request, absl::Duration timeout) {
  return absl::DeadlineExceededError(absl::StrCat("planning ", request.manifest().lengths_size(),
                                                  " sequences in process took longer than the ",
                                                  absl::FormatDuration(timeout), " allowed"));
}

class InProcessConnection final : public Connection {
 public:
  explicit InProcessConnection(const InProcessOptions& options) : options_(options) {}

  absl::StatusOr<v1::PlanBatchResponse> PlanBatch(const v1::PlanBatchRequest& request,
                                                  const CallOptions& options) override {
    try {
      return Make(request, options);
    } catch (const std::bad_alloc&) {
      return absl::ResourceExhaustedError(absl::StrCat("planning ",
                                                       request.manifest().lengths_size(),
                                                       " sequences in process ran out of memory"));
    }
  }

 private:
  absl::StatusOr<v1::PlanBatchResponse> Make(const v1::PlanBatchRequest& request,
                                             const CallOptions& options) const {
    const absl::Duration timeout = options.timeout.value_or(options_.default_timeout);
    if (timeout <= absl::ZeroDuration()) return TookTooLong(request, timeout);
    const StopAfter stop(timeout);

    if (absl::Status known = CheckFieldsKnown(request); !known.ok()) return known;
    absl::StatusOr<ParsedRequest> parsed = ParseRequest(request);
    if (!parsed.ok()) return parsed.status();

    const auto start = std::chrono::steady_clock::now();
    absl::StatusOr<Plan> plan = MakePlan(parsed->manifest, parsed->options, stop.token());
    if (!plan.ok()) {
      return absl::IsCancelled(plan.status()) ? TookTooLong(request, timeout) : plan.status();
    }
    const absl::Duration planning_time = absl::FromChrono(std::chrono::steady_clock::now() - start);

    if (options_.verify_plans) {
      const absl::Status checked = CheckPlan(parsed->manifest, parsed->options, *plan);
      if (!checked.ok()) return checked;
    }
    v1::PlanBatchResponse response;
    FillResponse(*plan, planning_time, &response);
    return response;
  }

  const InProcessOptions options_;
};

}  // namespace

std::shared_ptr<Connection> MakeInProcessConnection(const InProcessOptions& options) {
  return std::make_shared<InProcessConnection>(options);
}

}  // namespace batchplan
