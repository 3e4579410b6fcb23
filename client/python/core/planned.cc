#include "client/python/core/planned.h"

#include "client/python/core/status_error.h"
#include "proto/batchplan/v1/convert.h"
#include "proto/batchplan/v1/json.h"

namespace batchplan::python {

Planned::Planned(Plan plan, uint32_t ranks, const v1::PlanBatchResponse& head)
    : plan_(std::move(plan)), ranks_(ranks), head_json_(Get(ToCompleteJson(head))) {}

std::shared_ptr<Planned> ReadPlanned(v1::PlanBatchResponse response, uint32_t ranks) {
  Plan plan = Get(ParseResponse(response));
  for (v1::PassPlan& pass : *response.mutable_passes()) {
    pass.clear_sequence_index();
    pass.clear_microbatch_offsets();
    pass.clear_microbatches_per_rank();
    pass.clear_row_widths();
    pass.clear_sequence_lengths();
  }
  return std::make_shared<Planned>(std::move(plan), ranks, response);
}

}  // namespace batchplan::python
