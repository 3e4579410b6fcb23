// One PlanBatch call in flight.
//
//   return UnaryCall::Start(std::make_shared<PlanBatchCall>(environment, config, raw));

#ifndef BATCHPLAN_SERVER_SERVICE_PLAN_BATCH_CALL_H_
#define BATCHPLAN_SERVER_SERVICE_PLAN_BATCH_CALL_H_

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/service/plan_batch.h"
#include "server/service/unary_call.h"

namespace batchplan {

class PlanBatchCall final : public UnaryCall {
 public:
  // `environment` and `config` must outlive the call.
  PlanBatchCall(const CallEnvironment& environment, const PlanBatchConfig& config,
                const RawCall& raw);

 private:
  // Parses, plans, serialises, answers.
  void Run() override;
  absl::StatusOr<CallAnswer> Plan();

  const PlanBatchConfig& config_;
};

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_SERVICE_PLAN_BATCH_CALL_H_
