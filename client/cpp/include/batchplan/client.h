// The batchplan client: sequence lengths in, an executable plan out.
//
//   batchplan::Client client(batchplan::MakeRemoteConnection("planner:50051"));
//   absl::StatusOr<batchplan::v1::PlanBatchResponse> plan = client.PlanBatch(request);
//   if (!plan.ok()) return plan.status();
//
// Requests and responses are those of batchplan/v1/batch_planner.proto, documented there.
//
// Performance. A Client is one pointer: copy it freely. Making a connection is what costs (a remote
// one opens an HTTP/2 channel): make one, share it, keep it. A call copies neither request nor
// response beyond what serialisation takes; a million sequences are some 4 MB each way.
//
// Threads. Client and every Connection may be used from any number of threads at once. Copies of a
// Client share their connection. PlanBatch blocks its caller.
//
// Errors. No exceptions; absl::Status, with the codes that batch_planner.proto lists.
// INVALID_ARGUMENT and UNIMPLEMENTED name the field of the request and come out the same wherever
// it is planned. UNAVAILABLE means that no server could be reached, retries included. A plan is a
// pure function of its request, so calling again is always safe.

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

 private:
  std::shared_ptr<Connection> connection_;
};

}  // namespace batchplan

#endif  // BATCHPLAN_CLIENT_CPP_CLIENT_H_
