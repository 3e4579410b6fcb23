// The batchplan client: sequence lengths in, an executable plan out.
//
//   batchplan::Client client(batchplan::MakeRemoteConnection("planner:50051"));
//   absl::StatusOr<batchplan::v1::PlanBatchResponse> plan = client.PlanBatch(request);
//   if (!plan.ok()) return plan.status();
//
// Requests and responses are those of batchplan/v1/batch_planner.proto, documented there.
//
// Performance. A Client is one pointer: copy it freely. Connections are costly to make (a remote
// one opens an HTTP/2 channel): make one, share it, keep it. A call copies request and response
// only for serialisation; a million sequences are some 4 MB each way.
//
// Threads. Client and every Connection may be used from any number of threads at once. Copies of a
// Client share their connection. A call blocks its caller.
//
// Errors. No exceptions; absl::Status, with the codes that batch_planner.proto lists.
// INVALID_ARGUMENT and UNIMPLEMENTED name the field of the request and come out the same wherever
// it is planned. UNAVAILABLE means that no server could be reached, with retries, within the call's
// time; UNAUTHENTICATED that a certificate or token is refused. A plan is a pure function of its
// request, so calling again is always safe.

#ifndef BATCHPLAN_CLIENT_CPP_CLIENT_H_
#define BATCHPLAN_CLIENT_CPP_CLIENT_H_

#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "batchplan/connection.h"
#include "batchplan/fallback_connection.h"
#include "batchplan/in_process_connection.h"
#include "batchplan/remote_connection.h"
#include "batchplan/v1/batch_planner.pb.h"

namespace batchplan {

class Client {
 public:
  // `connection` must not be null.
  explicit Client(std::shared_ptr<Connection> connection) : connection_(std::move(connection)) {}

  // Plans one global batch. Deterministic: the same request gives the same plan, with the same
  // fingerprint, over every connection to a planner of the same version.
  absl::StatusOr<v1::PlanBatchResponse> PlanBatch(const v1::PlanBatchRequest& request,
                                                  const CallOptions& options = {}) const {
    return connection_->PlanBatch(request, options);
  }

  // Sends this worker's part of a batch and waits for the others': every worker of the step gets
  // the same plan, with the same fingerprint, or an error that it can retry. Calling again with the
  // same part is always safe, also through another server. DEADLINE_EXCEEDED names the missing
  // workers if request.timeout lets the server answer before the call ends; ALREADY_EXISTS and
  // INVALID_ARGUMENT say what does not fit the parts that are in. Without a run_id, a task of a
  // Slurm step gets Slurm's (remote_connection.h). Needs a server.
  absl::StatusOr<v1::JoinBatchResponse> JoinBatch(const v1::JoinBatchRequest& request,
                                                  const CallOptions& options = {}) const {
    return connection_->JoinBatch(request, options);
  }

  // Reports the times of micro-batches; returns the job's cost model as fitted so far, by which
  // CostModel.fitted plans. If a report holds a whole step, the server also shows the step's time.
  // A report whose times are counted already changes nothing, even if it corrects where they were
  // measured or what was predicted (already_counted). Needs a server.
  absl::StatusOr<v1::ReportStepResponse> ReportStep(const v1::ReportStepRequest& request,
                                                    const CallOptions& options = {}) const {
    return connection_->ReportStep(request, options);
  }

 private:
  std::shared_ptr<Connection> connection_;
};

}  // namespace batchplan

#endif  // BATCHPLAN_CLIENT_CPP_CLIENT_H_
