// What a Client plans with: a server, this process, or one as the other's fallback.
//
// Connections compose: MakeFallbackConnection takes two and is one, and a test may pass a fake.
// Every implementation is thread-safe, allows any number of calls at once, and reports failure by
// status, never by exception.

#ifndef BATCHPLAN_CLIENT_CPP_CONNECTION_H_
#define BATCHPLAN_CLIENT_CPP_CONNECTION_H_

#include <optional>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "batchplan/v1/batch_planner.pb.h"

namespace batchplan {

// The options of one call.
struct CallOptions {
  // The time limit of the call, with retries and fallback; DEADLINE_EXCEEDED afterwards. Unset: the
  // connection's default. absl::InfiniteDuration() waits forever.
  std::optional<absl::Duration> timeout = {};
  // Whether the caller makes the plan elsewhere if this connection fails, which then gives up early
  // enough. FallbackConnection sets it for its primary.
  bool has_fallback = false;
};

class Connection {
 public:
  virtual ~Connection() = default;

  // See the methods of Client. Block; safe to call from any number of threads.
  virtual absl::StatusOr<v1::PlanBatchResponse> PlanBatch(const v1::PlanBatchRequest& request,
                                                          const CallOptions& options) = 0;

  // These two need a server, where the workers of a job meet: FailedPrecondition without one.
  virtual absl::StatusOr<v1::JoinBatchResponse> JoinBatch(const v1::JoinBatchRequest& request,
                                                          const CallOptions& options);
  virtual absl::StatusOr<v1::ReportStepResponse> ReportStep(const v1::ReportStepRequest& request,
                                                            const CallOptions& options);
};

}  // namespace batchplan

#endif  // BATCHPLAN_CLIENT_CPP_CONNECTION_H_
