// One JoinBatch call in flight: read by a thread of the store's, it then waits for the other
// workers without holding any.
//
//   return UnaryCall::Start(std::make_shared<JoinBatchCall>(environment, &planner, raw));

#ifndef BATCHPLAN_SERVER_SERVICE_JOIN_BATCH_CALL_H_
#define BATCHPLAN_SERVER_SERVICE_JOIN_BATCH_CALL_H_

#include <functional>
#include <optional>
#include <stop_token>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "batchplan/v1/batch_planner.pb.h"
#include "server/rendezvous/rendezvous.h"
#include "server/service/collective_planner.h"
#include "server/service/unary_call.h"

namespace batchplan {

class JoinBatchCall final : public UnaryCall {
 public:
  // `environment` and `planner` must outlive the call.
  JoinBatchCall(const CallEnvironment& environment, CollectivePlanner* planner, const RawCall& raw);

 private:
  // Whose slice of the plan is asked for.
  struct Slice {
    uint32_t data_parallel = 1;
    uint32_t rank = 0;
  };

  absl::Status Queue() override { return QueueForStore(); }
  // Parses and joins.
  void Run() override;
  void Delivered() override;
  absl::StatusOr<CallAnswer> AnswerFor(const std::shared_ptr<const JoinedPlan>& joined,
                                       const std::optional<Slice>& slice) const;

  CollectivePlanner* const planner_;
  // Once there is a plan.
  std::optional<ServedWorker> served_;
  // Leaves the step when the call is cancelled.
  std::optional<std::stop_callback<std::function<void()>>> leave_;
};

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_SERVICE_JOIN_BATCH_CALL_H_
