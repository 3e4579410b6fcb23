#include "server/planner/time/schedule.h"

#include <cassert>

namespace batchplan {

Pipeline PipelineOf(const Topology& topology, const PipelineOptions& options, bool forward_only) {
  Pipeline pipeline = {
      .stages = topology.pipeline_parallel,
      .chunks = topology.virtual_pipeline,
      .interleaved = topology.virtual_pipeline > 1,
      .group_size = options.group_size > 0 ? options.group_size : topology.pipeline_parallel,
      .forward_only = forward_only,
      .backward_ratio = options.backward_ratio,
      .shares = options.stage_shares,
      .transfer = options.transfer};
  if (pipeline.shares.empty()) pipeline.shares.assign(pipeline.virtual_stages(), 1);
  double sum = 0;
  for (const double share : pipeline.shares) sum += share;
  for (double& share : pipeline.shares) share /= sum;
  return pipeline;
}

RunOrder RunOrderOf(const Pipeline& pipeline, uint32_t microbatches) {
  RunOrder order;
  order.microbatch.reserve(size_t{microbatches} * pipeline.chunks);
  order.chunk.reserve(size_t{microbatches} * pipeline.chunks);
  const uint32_t group = pipeline.interleaved ? pipeline.group_size : std::max(microbatches, 1u);
  assert(microbatches % group == 0);
  for (uint32_t first = 0; first < microbatches; first += group) {
    for (uint32_t chunk = 0; chunk < pipeline.chunks; ++chunk) {
      for (uint32_t i = 0; i < group; ++i) {
        order.microbatch.push_back(first + i);
        order.chunk.push_back(chunk);
      }
    }
  }
  return order;
}

}  // namespace batchplan
