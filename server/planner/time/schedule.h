// Which stage of a pipeline runs which micro-batch in which order.
//
//   stage: the ranks that hold one part of the model, and its number in the order of the model.
//   chunk: a piece of a stage's part of the model, in the interleaved schedule: chunk c of stage s
//     is the virtual stage c * stages + s.
//   position: of a forward or a backward, in the order in which every stage runs its own.
//
// 1F1B (D. Narayanan et al.: PipeDream, SOSP 2019; without flushes): stage s of p runs min(p-1-s,
// m) of its m forwards, then a forward and a backward in turns, then the remaining backwards.
//
// Interleaved 1F1B (D. Narayanan et al.: Efficient Large-Scale Language Model Training on GPU
// Clusters Using Megatron-LM, SC 2021): micro-batches go through the chunks of a stage group by
// group: g micro-batches through chunk 0, then the same g through chunk 1, and so on. Backwards go
// through the chunks the other way round. min(2(p-1-s) + (v-1)g, m v) forwards come before the
// first backward.

#ifndef BATCHPLAN_SERVER_PLANNER_TIME_SCHEDULE_H_
#define BATCHPLAN_SERVER_PLANNER_TIME_SCHEDULE_H_

#include <algorithm>
#include <cstdint>
#include <vector>

#include "server/planner/request/options.h"

namespace batchplan {

// A pipeline, and how its stages share the costs. Costs are of the whole model, forward and
// backward, as a CostModel counts them.
struct Pipeline {
  // At least 1 each.
  uint32_t stages = 1;
  uint32_t chunks = 1;
  bool interleaved = false;
  // Interleaved: micro-batches that go through a chunk in a row, at least `stages`.
  uint32_t group_size = 1;
  // Forwards alone, as for log-probabilities.
  bool forward_only = false;
  // The time of a backward over that of its forward.
  double backward_ratio = 2;
  // The part of the model's time in each virtual stage: stages * chunks numbers with the sum 1.
  std::vector<double> shares = {1};
  // The time of a transfer from one virtual stage to the next, either way, in units of cost. Keeps
  // no stage busy.
  double transfer = 0;

  uint32_t virtual_stages() const { return stages * chunks; }
  // The parts of a micro-batch's cost in a virtual stage's forward and backward.
  double ForwardShare(uint32_t stage) const {
    return forward_only ? shares[stage] : shares[stage] / (1 + backward_ratio);
  }
  double BackwardShare(uint32_t stage) const {
    return forward_only ? 0 : shares[stage] * (backward_ratio / (1 + backward_ratio));
  }
  // The part of a micro-batch's cost in a stage, all its chunks together.
  double StageShare(uint32_t stage) const {
    double share = 0;
    for (uint32_t q = stage; q < virtual_stages(); q += stages) share += shares[q];
    return share;
  }
  // The share of the stage with most work.
  double BusiestShare() const {
    double most = 0;
    for (uint32_t stage = 0; stage < stages; ++stage) most = std::max(most, StageShare(stage));
    return most;
  }
  // The forwards of a stage before its first backward.
  uint64_t Warmup(uint32_t stage, uint32_t microbatches) const {
    const uint64_t all = uint64_t{microbatches} * chunks;
    if (forward_only) return all;
    const uint64_t behind = stages - 1 - stage;
    return std::min(all, interleaved ? 2 * behind + uint64_t{chunks - 1} * group_size : behind);
  }
};

// The pipeline of a request whose options are valid.
Pipeline PipelineOf(const Topology& topology, const PipelineOptions& options, bool forward_only);

// What a stage runs at each position: forward k is of microbatch[k] through chunk[k], backward k of
// the same micro-batch through chunks - 1 - chunk[k]. Views nothing.
struct RunOrder {
  std::vector<uint32_t> microbatch;
  std::vector<uint32_t> chunk;
};

// If interleaved, `microbatches` must be a multiple of the group size: with a shorter group stages
// would wait for each other.
RunOrder RunOrderOf(const Pipeline& pipeline, uint32_t microbatches);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_TIME_SCHEDULE_H_
