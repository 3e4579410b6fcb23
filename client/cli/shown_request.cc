#include "client/cli/shown_request.h"

namespace batchplan::cli {

v1::PlanBatchRequest ShownRequest(const v1::PlanBatchRequest& request, const PlanOptions& options) {
  v1::PlanBatchRequest shown = request;
  shown.clear_manifest();
  v1::Topology* topology = shown.mutable_topology();
  topology->set_data_parallel(options.topology.data_parallel);
  topology->set_context_parallel(options.topology.context_parallel);
  topology->set_tensor_parallel(options.topology.tensor_parallel);
  topology->set_pipeline_parallel(options.topology.pipeline_parallel);
  topology->set_virtual_pipeline(options.topology.virtual_pipeline);
  topology->set_sequence_parallel(options.topology.sequence_parallel);
  shown.set_synchronization(options.synchronization == Synchronization::kLockstep
                                ? v1::SYNCHRONIZATION_LOCKSTEP
                                : v1::SYNCHRONIZATION_ACCUMULATED);
  for (int i = 0; i < shown.passes_size(); ++i) {
    v1::Pass* pass = shown.mutable_passes(i);
    if (options.passes[i].layout == Layout::kPadded) {
      pass->mutable_padded();
    } else {
      pass->mutable_packed();
    }
  }
  return shown;
}

}  // namespace batchplan::cli
