#include "server/service/planning/plan_observers.h"

#include <google/protobuf/util/time_util.h>

#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "server/service/admission/rpc_status.h"
#include "server/service/planning/message_bytes.h"
#include "server/service/planning/plan_cache.h"

namespace batchplan {
namespace {

// The response that `plan` is kept as; null if memory runs out.
std::shared_ptr<const v1::PlanBatchResponse> Read(const CachedPlan& plan) {
  auto response = std::make_shared<v1::PlanBatchResponse>();
  return ParseBytes(plan.body, response.get()).ok() ? response : nullptr;
}

std::shared_ptr<const v1::PlanBatchResponse> PlanOf(
    const std::shared_ptr<const JoinedPlan>& joined) {
  return {joined, &joined->plan()};
}

// Where memory runs out nobody is told, but whoever asked for the plan is answered.
template <typename Telling>
void Quietly(const Telling& tell) {
  CatchExceptions([&] {
    tell();
    return absl::OkStatus();
  }).IgnoreError();
}

void Tell(const PlanObservers& observers, const PlanRecord& plan, uint64_t step,
          absl::FunctionRef<WholePlan()> whole) {
  const absl::Time now = absl::Now();
  observers.metrics->RecordPlan(plan, now);
  if (observers.recent != nullptr) observers.recent->Record(plan, step, now, whole);
}

}  // namespace

void ObservePlan(const PlanObservers& observers, const v1::PlanBatchRequest& request,
                 const std::shared_ptr<const CachedPlan>& plan, absl::Duration planning_time) {
  const PlanRecord record = {.job_id = request.job_id(),
                             .preset = request.preset(),
                             .sequences = static_cast<uint64_t>(request.manifest().lengths_size()) -
                                          plan->waiting.not_planned(),
                             .planning_seconds = absl::ToDoubleSeconds(planning_time),
                             .passes = plan->passes,
                             .waiting = plan->waiting};
  Quietly([&] {
    Tell(observers, record, request.step(), [&] {
      return WholePlan{.request = std::make_shared<const v1::PlanBatchRequest>(request),
                       .response = [plan] { return Read(*plan); },
                       .bytes = plan->bytes() + request.SpaceUsedLong()};
    });
  });
}

void ObserveJoinedPlan(const PlanObservers& observers,
                       const std::shared_ptr<const v1::PlanBatchRequest>& request,
                       const std::shared_ptr<const JoinedPlan>& joined) {
  const absl::Duration planning_time = absl::Nanoseconds(
      google::protobuf::util::TimeUtil::DurationToNanoseconds(joined->plan().planning_time()));
  Quietly([&] {
    const std::vector<PassRecord> passes = RecordPasses(*request, joined->plan());
    const WaitingRecord waiting = RecordWaiting(*request, joined->plan());
    const PlanRecord record = {
        .job_id = request->job_id(),
        .preset = request->preset(),
        .sequences = *joined->whole.worker_offsets().rbegin() - waiting.not_planned(),
        .planning_seconds = absl::ToDoubleSeconds(planning_time),
        .passes = passes,
        .waiting = waiting};
    Tell(observers, record, request->step(), [&] {
      return WholePlan{.request = joined->request,
                       .response = [joined] { return PlanOf(joined); },
                       .bytes = joined->bytes()};
    });
  });
}

void ObserveStep(const PlanObservers& observers, const std::string& job_id, uint64_t step,
                 const MeasuredStep& measured) {
  constexpr double kMillisecond = 1e-3;
  const StepRecord record = {.measured_seconds = kMillisecond * measured.milliseconds,
                             .waited_ratio = measured.waited_share,
                             .predicted_seconds = kMillisecond * measured.predicted_milliseconds};
  Quietly([&] {
    observers.metrics->RecordJobStep(job_id, record, absl::Now());
    if (observers.recent != nullptr) observers.recent->RecordStep(job_id, step, record);
  });
}

}  // namespace batchplan
