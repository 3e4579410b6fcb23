#include "server/service/report_step_call.h"

#include "absl/time/clock.h"
#include "batchplan/v1/batch_planner.pb.h"
#include "server/service/message_bytes.h"
#include "server/service/report_step.h"
#include "server/service/unknown_fields.h"

namespace batchplan {
namespace {

FitRecord FitOf(const v1::ReportStepResponse& response) {
  constexpr double kMillisecond = 1e-3;
  const v1::CostModel& costs = response.fitted();
  return {.seconds_per_token = kMillisecond * costs.per_token(),
          .seconds_per_token_squared = kMillisecond * costs.per_token_squared(),
          .seconds_per_microbatch = kMillisecond * costs.per_microbatch(),
          .error_ratio = response.fit_error(),
          .samples = response.samples()};
}

}  // namespace

ReportStepCall::ReportStepCall(const CallEnvironment& environment, JobFits* fits,
                               const RawCall& raw)
    : UnaryCall({.name = "ReportStep",
                 .outline = OutlineReportStep,
                 .store_threads = &CallEnvironment::report_threads},
                environment, raw),
      fits_(fits),
      metrics_(environment.metrics) {}

void ReportStepCall::Run() { Answer(Report()); }

absl::StatusOr<CallAnswer> ReportStepCall::Report() {
  v1::ReportStepRequest request;
  absl::Status status = ParseBytes(request_bytes(), &request);
  status.Update(CheckOutlined(request.job_id()));
  status.Update(CheckFieldsKnown(request));
  if (!status.ok()) return status;
  v1::ReportStepResponse response;
  status = ReportStep(fits_, owner(), request, &response);
  if (!status.ok()) return status;
  if (response.has_fitted()) {
    metrics_->RecordJobFit(request.job_id(), FitOf(response), absl::Now());
  }
  absl::StatusOr<grpc::ByteBuffer> bytes = ToBytes(response);
  if (!bytes.ok()) return bytes.status();
  return CallAnswer{.response = *bytes};
}

}  // namespace batchplan
