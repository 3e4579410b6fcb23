// One PlanBatch call in flight.
//
//   return UnaryCall::Start(std::make_shared<PlanBatchCall>(environment, config, &fits, raw));
//
// A request for fitted costs is read by a planning thread, given its costs by one of the store's,
// and goes back to be planned.

#ifndef BATCHPLAN_SERVER_SERVICE_PLAN_BATCH_CALL_H_
#define BATCHPLAN_SERVER_SERVICE_PLAN_BATCH_CALL_H_

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "batchplan/v1/batch_planner.pb.h"
#include "server/service/job_fits.h"
#include "server/service/plan_batch.h"
#include "server/service/unary_call.h"

namespace batchplan {

class PlanBatchCall final : public UnaryCall {
 public:
  // Whatever is given must outlive the call.
  PlanBatchCall(const CallEnvironment& environment, const PlanBatchConfig& config, JobFits* fits,
                const RawCall& raw);

 private:
  // What Run does next.
  enum class Stage { kParse, kSetCosts, kPlan };

  // What can't be sent is not planned.
  absl::Status Queue() override;
  void Run() override;
  // Queues the call again if the request asks for fitted costs.
  absl::Status Parse();
  // Puts the fitted costs in their place and queues the call again.
  absl::Status SetCosts();
  // Plans, serialises.
  absl::StatusOr<CallAnswer> Plan();

  const PlanBatchConfig& config_;
  JobFits* const fits_;
  Stage stage_ = Stage::kParse;
  v1::PlanBatchRequest request_;
};

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_SERVICE_PLAN_BATCH_CALL_H_
