// One PlanBatch call in flight.
//
//   (new PlanBatchCall(config, context, request, response))->Start(pool);  // deletes itself
//
// Lives from gRPC's handler until OnDone. Between the two it is, in this order, started by a gRPC
// thread, run by a pool thread (or refused at once), answered exactly once; a cancellation may come
// from another gRPC thread at any time and only requests a stop.

#ifndef BATCHPLAN_SERVER_SERVICE_PLAN_BATCH_CALL_H_
#define BATCHPLAN_SERVER_SERVICE_PLAN_BATCH_CALL_H_

#include <grpcpp/grpcpp.h>

#include <atomic>
#include <chrono>
#include <stop_token>

#include "absl/status/status.h"
#include "batchplan/v1/batch_planner.pb.h"
#include "server/service/plan_batch.h"
#include "server/service/worker_pool.h"

namespace batchplan {

class PlanBatchCall final : public grpc::ServerUnaryReactor {
 public:
  // gRPC keeps context, request and response until OnDone; config must outlive the call.
  PlanBatchCall(const PlanBatchConfig& config, grpc::CallbackServerContext* context,
                const grpc::ByteBuffer* request, grpc::ByteBuffer* response);

  // Hands the call to `pool`, or answers it if the pool has no room.
  void Start(WorkerPool* pool);

  void OnCancel() override { stop_.request_stop(); }
  void OnDone() override;

 private:
  // On a pool thread: plans and answers.
  void Run();

  // Parses, plans, serialises.
  absl::Status Plan();

  // Counts and logs the outcome and gives it to gRPC. The call may be gone when this returns.
  void Answer(const absl::Status& status);

  const PlanBatchConfig& config_;
  grpc::CallbackServerContext* const context_;
  const grpc::ByteBuffer* const request_bytes_;
  grpc::ByteBuffer* const response_bytes_;
  const std::chrono::steady_clock::time_point arrival_ = std::chrono::steady_clock::now();
  std::stop_source stop_;
  // Orders the pool thread's work before the deletion on a gRPC thread. Finish and OnDone do so
  // too, but inside gRPC, where ThreadSanitizer does not see it.
  std::atomic<bool> answered_ = false;
  v1::PlanBatchRequest request_;
  v1::PlanBatchResponse response_;
};

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_SERVICE_PLAN_BATCH_CALL_H_
