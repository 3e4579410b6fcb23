// A connection with a fallback: plans with `primary` and, if that fails after its own retries for a
// reason that is not the caller's, with `secondary`. Such reasons are UNAVAILABLE, CANCELLED,
// DEADLINE_EXCEEDED as long as the call has time, RESOURCE_EXHAUSTED, UNIMPLEMENTED,
// FAILED_PRECONDITION, INTERNAL, UNKNOWN. Every other status of the primary is final: a refusal of
// the request, of a token, or of a certificate.
//
//   auto connection = MakeFallbackConnection(MakeRemoteConnection("planner:50051"),
//                                            MakeInProcessConnection());
//   Client client(connection);
//   ...
//   connection->fallback_count();
//
// So a training step survives the loss of its planner with the same plan, as long as both have the
// same planner version (PlanBatchResponse.planner_version). Requests for fitted costs
// (cost_model.fitted) have no fallback: the secondary does not have the primary's fits, and another
// plan is no replacement. Their status is the primary's.
//
// Thread-safe. A call's timeout spans both: the secondary gets the rest of the time, of which a
// remote primary leaves at least half. With a server that hangs, the first call loses 15 s at the
// defaults, and later calls at most 1 s until it answers again.

#ifndef BATCHPLAN_CLIENT_CPP_FALLBACK_CONNECTION_H_
#define BATCHPLAN_CLIENT_CPP_FALLBACK_CONNECTION_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "batchplan/connection.h"
#include "batchplan/v1/batch_planner.pb.h"

namespace batchplan {

struct FallbackOptions {
  // Called on every fallback, before the secondary plans, with the primary's status; from the
  // thread that plans, so from several at once. Unset: one line to stderr.
  std::function<void(const v1::PlanBatchRequest& request, const absl::Status& why)> on_fallback;
};

class FallbackConnection final : public Connection {
 public:
  // Use MakeFallbackConnection.
  FallbackConnection(std::shared_ptr<Connection> primary, std::shared_ptr<Connection> secondary,
                     FallbackOptions options);

  absl::StatusOr<v1::PlanBatchResponse> PlanBatch(const v1::PlanBatchRequest& request,
                                                  const CallOptions& options) override;

  // Only the primary's: a step whose workers joined in two places would have two plans.
  absl::StatusOr<v1::JoinBatchResponse> JoinBatch(const v1::JoinBatchRequest& request,
                                                  const CallOptions& options) override {
    return primary_->JoinBatch(request, options);
  }
  absl::StatusOr<v1::ReportStepResponse> ReportStep(const v1::ReportStepRequest& request,
                                                    const CallOptions& options) override {
    return primary_->ReportStep(request, options);
  }

  // Calls passed to the secondary so far, whatever their result.
  uint64_t fallback_count() const { return fallback_count_.load(std::memory_order_relaxed); }

 private:
  const std::shared_ptr<Connection> primary_;
  const std::shared_ptr<Connection> secondary_;
  const FallbackOptions options_;
  std::atomic<uint64_t> fallback_count_ = 0;
};

// Neither connection may be null.
std::shared_ptr<FallbackConnection> MakeFallbackConnection(std::shared_ptr<Connection> primary,
                                                           std::shared_ptr<Connection> secondary,
                                                           FallbackOptions options = {});

}  // namespace batchplan

#endif  // BATCHPLAN_CLIENT_CPP_FALLBACK_CONNECTION_H_
