// A connection that stands in for another one: plans over `primary`, and over `secondary` where
// that makes no plan, after its own retries, for a reason that is not the caller's: UNAVAILABLE,
// CANCELLED, DEADLINE_EXCEEDED as long as the call has time, RESOURCE_EXHAUSTED, UNIMPLEMENTED,
// FAILED_PRECONDITION, INTERNAL, UNKNOWN. Every other status is the primary's and final: a refusal
// of the request, of a token, or of a certificate.
//
//   auto connection = MakeFallbackConnection(MakeRemoteConnection("planner:50051"),
//                                            MakeInProcessConnection());
//   Client client(connection);
//   ...
//   connection->fallback_count();
//
// A training step so survives the loss of its planner with the same plan, as long as both have the
// same planner version (PlanBatchResponse.planner_version). A request for fitted costs
// (cost_model.fitted) does not: what the primary holds, the secondary can't plan by, and another
// plan is no replacement. There the primary's status stands.
//
// Thread-safe. A call's timeout spans both: the secondary gets what the primary left, which a
// remote connection lets be half at least. Beside a server that hangs, the first call so loses 15 s
// at the defaults, and those after it 1 s at most until it answers again.

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

  // The primary's alone: a step whose workers joined in two places would have two plans.
  absl::StatusOr<v1::JoinBatchResponse> JoinBatch(const v1::JoinBatchRequest& request,
                                                  const CallOptions& options) override {
    return primary_->JoinBatch(request, options);
  }
  absl::StatusOr<v1::ReportStepResponse> ReportStep(const v1::ReportStepRequest& request,
                                                    const CallOptions& options) override {
    return primary_->ReportStep(request, options);
  }

  // Calls handed to the secondary so far, whatever became of them.
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
