#include "server/service/report_step_call.h"

#include "batchplan/v1/batch_planner.pb.h"
#include "server/service/message_bytes.h"
#include "server/service/report_step.h"

namespace batchplan {

ReportStepCall::ReportStepCall(const CallEnvironment& environment, JobFits* fits,
                               const RawCall& raw)
    : UnaryCall({.name = "ReportStep",
                 .outline = OutlineReportStep,
                 .store_threads = &CallEnvironment::report_threads},
                environment, raw),
      fits_(fits) {}

void ReportStepCall::Run() { Answer(Report()); }

absl::StatusOr<CallAnswer> ReportStepCall::Report() {
  v1::ReportStepRequest request;
  absl::Status status = ParseBytes(request_bytes(), &request);
  status.Update(CheckOutlined(request.job_id()));
  if (!status.ok()) return status;
  v1::ReportStepResponse response;
  status = ReportStep(fits_, request, &response);
  if (!status.ok()) return status;
  absl::StatusOr<grpc::ByteBuffer> bytes = ToBytes(response);
  if (!bytes.ok()) return bytes.status();
  return CallAnswer{.response = *bytes};
}

}  // namespace batchplan
