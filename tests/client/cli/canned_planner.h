// A connection that does not plan: it answers with a plan of empty micro-batches and the given
// metrics, or with the given error.

#ifndef BATCHPLAN_TESTS_CLIENT_CLI_CANNED_PLANNER_H_
#define BATCHPLAN_TESTS_CLIENT_CLI_CANNED_PLANNER_H_

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "batchplan/client.h"
#include "batchplan/v1/batch_planner.pb.h"

namespace batchplan {

using CannedAnswer = std::function<absl::StatusOr<v1::PlanMetrics>(const v1::PlanBatchRequest&)>;

class CannedPlanner final : public Connection {
 public:
  explicit CannedPlanner(CannedAnswer answer) : answer_(std::move(answer)) {}

  absl::StatusOr<v1::PlanBatchResponse> PlanBatch(const v1::PlanBatchRequest& request,
                                                  const CallOptions& /*options*/) override {
    absl::StatusOr<v1::PlanMetrics> metrics = answer_(request);
    if (!metrics.ok()) return metrics.status();
    v1::PlanBatchResponse response;
    for (int i = 0; i < request.passes_size(); ++i) {
      v1::PassPlan* plan = response.add_passes();
      const uint32_t ranks = std::max<uint32_t>(1, request.topology().data_parallel());
      // A number that an interleaved schedule allows.
      const uint32_t slots = request.topology().virtual_pipeline() > 1
                                 ? std::max<uint32_t>(1, request.topology().pipeline_parallel())
                                 : 1;
      plan->add_microbatches_per_rank(slots);
      plan->add_microbatch_offsets(0);
      for (uint32_t microbatch = 0; microbatch < ranks * slots; ++microbatch) {
        plan->add_microbatch_offsets(0);
        plan->add_row_widths(0);
      }
      plan->set_length_multiple(1);
      *plan->mutable_metrics() = *metrics;
    }
    return response;
  }

 private:
  const CannedAnswer answer_;
};

inline Client MakeCannedClient(CannedAnswer answer) {
  return Client(std::make_shared<CannedPlanner>(std::move(answer)));
}

inline v1::PlanMetrics CannedMetrics(double step_time, uint32_t microbatches) {
  v1::PlanMetrics metrics;
  metrics.set_predicted_step_time(step_time);
  metrics.set_microbatches(microbatches);
  metrics.set_true_tokens(100);
  return metrics;
}

}  // namespace batchplan

#endif  // BATCHPLAN_TESTS_CLIENT_CLI_CANNED_PLANNER_H_
