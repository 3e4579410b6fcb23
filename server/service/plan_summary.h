// What logs, metrics and the page of recent plans say of a plan.

#ifndef BATCHPLAN_SERVER_SERVICE_PLAN_SUMMARY_H_
#define BATCHPLAN_SERVER_SERVICE_PLAN_SUMMARY_H_

#include <cstdint>
#include <vector>

#include "batchplan/v1/batch_planner.pb.h"
#include "server/telemetry/plan_record.h"

namespace batchplan {

struct PlanSummary {
  std::vector<PassRecord> passes;

  // Of all passes.
  uint64_t microbatches() const;
};

PlanSummary Summarize(const v1::PlanBatchResponse& response);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_SERVICE_PLAN_SUMMARY_H_
