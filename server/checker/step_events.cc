#include "server/checker/step_events.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <numeric>
#include <vector>

#include "server/checker/pipeline_events.h"
#include "server/checker/stated_metrics.h"

namespace batchplan::checker {
namespace {

// Divides the ranks into parts that do not wait for each other: ranks that share a micro-batch in
// any slot, directly or through others, are in one part. All ranks are in one part under LOCKSTEP,
// and if there would be too many parts to simulate.
std::vector<size_t> PartOfEachRank(const PassUnderCheck& pass,
                                   std::span<const TimedMicrobatch> microbatches, size_t ranks,
                                   size_t slots) {
  std::vector<size_t> part_of(ranks, 0);
  if (pass.request.synchronization == Synchronization::kLockstep) return part_of;
  // In how many slots a micro-batch begins at each rank.
  std::vector<size_t> begins(ranks, 0);
  for (const TimedMicrobatch& microbatch : microbatches) ++begins[microbatch.rank];
  for (size_t rank = 1; rank < ranks; ++rank) {
    part_of[rank] = part_of[rank - 1] + (begins[rank] == slots ? 1 : 0);
  }
  const Topology& topology = pass.request.topology;
  const uint64_t stages = uint64_t{topology.pipeline_parallel} * topology.virtual_pipeline;
  if (part_of.back() + 1 > kMaxPipelineWorks / stages / slots) {
    std::fill(part_of.begin(), part_of.end(), 0);
  }
  return part_of;
}

StepTime OnPipelines(const PassUnderCheck& pass, std::span<const TimedMicrobatch> microbatches,
                     size_t ranks, size_t slots) {
  const std::vector<size_t> part_of = PartOfEachRank(pass, microbatches, ranks, slots);
  std::vector<std::vector<double>> parts(part_of.back() + 1, std::vector<double>(slots, 0));
  for (const TimedMicrobatch& microbatch : microbatches) {
    double& slowest = parts[part_of[microbatch.rank]][microbatch.slot];
    slowest = std::max(slowest, microbatch.cost);
  }
  const Topology& topology = pass.request.topology;
  std::vector<double> times;
  times.reserve(parts.size());
  for (const std::vector<double>& costs : parts) {
    times.push_back(
        PipelineTime(topology, pass.request.pipeline, pass.options.forward_only, costs));
  }
  StepTime step = {.time = *std::max_element(times.begin(), times.end()),
                   .least_stage_work = std::numeric_limits<double>::infinity()};
  const double share = LargestStage(topology, pass.request.pipeline);
  for (size_t part = 0; part < parts.size(); ++part) {
    if (times[part] < step.time * (1 - kTolerance)) continue;
    const double work = share * std::accumulate(parts[part].begin(), parts[part].end(), 0.0);
    step.least_stage_work = std::min(step.least_stage_work, work);
    step.most_stage_work = std::max(step.most_stage_work, work);
  }
  return step;
}

// Each slot lasts as long as its slowest micro-batch.
double InLockstep(std::span<const TimedMicrobatch> microbatches, size_t slots) {
  std::vector<double> slowest(slots, 0);
  for (const TimedMicrobatch& microbatch : microbatches) {
    slowest[microbatch.slot] = std::max(slowest[microbatch.slot], microbatch.cost);
  }
  return std::accumulate(slowest.begin(), slowest.end(), 0.0);
}

// A micro-batch begins when the last of its ranks has finished the one before.
double Accumulated(std::span<const TimedMicrobatch> microbatches, size_t ranks) {
  std::vector<double> ended(ranks, 0);
  for (const TimedMicrobatch& microbatch : microbatches) {
    const auto own = std::span(ended).subspan(microbatch.rank, microbatch.ranks);
    const double begin = *std::max_element(own.begin(), own.end());
    std::fill(own.begin(), own.end(), begin + microbatch.cost);
  }
  return *std::max_element(ended.begin(), ended.end());
}

}  // namespace

StepTime StepTimeOf(const PassUnderCheck& pass, std::span<const TimedMicrobatch> microbatches,
                    size_t ranks, size_t slots) {
  if (pass.request.topology.pipeline_parallel > 1) {
    return OnPipelines(pass, microbatches, ranks, slots);
  }
  if (pass.request.synchronization == Synchronization::kLockstep) {
    return {.time = InLockstep(microbatches, slots)};
  }
  return {.time = Accumulated(microbatches, ranks)};
}

}  // namespace batchplan::checker
