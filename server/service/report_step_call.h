// One ReportStep call in flight, run by a thread of the reports'.
//
//   return UnaryCall::Start(std::make_shared<ReportStepCall>(environment, &fits, raw));

#ifndef BATCHPLAN_SERVER_SERVICE_REPORT_STEP_CALL_H_
#define BATCHPLAN_SERVER_SERVICE_REPORT_STEP_CALL_H_

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/service/job_fits.h"
#include "server/service/unary_call.h"

namespace batchplan {

class ReportStepCall final : public UnaryCall {
 public:
  // `environment` and `fits` must outlive the call.
  ReportStepCall(const CallEnvironment& environment, JobFits* fits, const RawCall& raw);

 private:
  // One after the other of a job: they replace the same state.
  absl::Status Queue() override { return QueueForStore(outline().job_id.text); }
  void Run() override;
  absl::StatusOr<CallAnswer> Report();

  JobFits* const fits_;
  Metrics* const metrics_;
};

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_SERVICE_REPORT_STEP_CALL_H_
