#include "server/planner/pipeline/simulator.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cstddef>
#include <numeric>
#include <utility>

namespace batchplan {

// A stage has at most its warm-up, and one, forwards that it has not run the backward of; so far is
// it ahead of the next stage, and is that one's backward ahead of its own.
PipelineSimulator::PipelineSimulator(Pipeline pipeline, uint32_t microbatches, Mode mode)
    : pipeline_(std::move(pipeline)),
      microbatches_(microbatches),
      mode_(mode),
      order_(RunOrderOf(pipeline_, microbatches)),
      stages_(pipeline_.stages),
      forward_(pipeline_.virtual_stages()),
      backward_(pipeline_.virtual_stages()) {
  for (uint32_t q = 0; q < pipeline_.virtual_stages(); ++q) {
    forward_share_.push_back(pipeline_.ForwardShare(q));
    backward_share_.push_back(pipeline_.BackwardShare(q));
  }
  for (uint32_t s = 0; s < pipeline_.stages; ++s) {
    stages_[s].warmup = pipeline_.Warmup(s, microbatches);
  }
  if (pipeline_.forward_only && mode == Mode::kTime) {
    ring_storage_.resize(microbatches);
    return;
  }
  const uint64_t ahead = mode == Mode::kTrace
                             ? microbatches
                             : std::min<uint64_t>(stages_.front().warmup + 1, microbatches);
  ring_ = std::bit_ceil(static_cast<uint32_t>(std::max<uint64_t>(ahead, 1)));
  ring_storage_.resize(size_t{2} * ring_ * pipeline_.virtual_stages());
  double* next = ring_storage_.data();
  for (Ends& ends : forward_) ends.at = std::exchange(next, next + ring_);
  for (Ends& ends : backward_) ends.at = std::exchange(next, next + ring_);
}

double PipelineSimulator::Makespan(std::span<const double> costs) {
  assert(costs.size() == microbatches_);
  if (costs.empty()) return 0;
  ++simulations_;
  if (pipeline_.forward_only && mode_ == Mode::kTime) return ForwardsAlone(costs);
  for (Stage& stage : stages_) stage = {.warmup = stage.warmup};
  for (Ends& ends : forward_) ends.done = 0;
  for (Ends& ends : backward_) ends.done = 0;
  // Down the pipeline and up again, as long as anything moves.
  for (bool moved = true; moved;) {
    moved = false;
    for (uint32_t s = 0; s < pipeline_.stages; ++s) moved |= Advance(s, costs);
    for (uint32_t s = pipeline_.stages; s-- > 0;) moved |= Advance(s, costs);
  }
  double makespan = 0;
  for (const Stage& stage : stages_) {
    assert((pipeline_.forward_only ? stage.forwards : stage.backwards) == order_.chunk.size());
    makespan = std::max(makespan, stage.free);
  }
  return makespan;
}

// Position by position, each through all stages: whatever a stage waits for has been run by then.
double PipelineSimulator::ForwardsAlone(std::span<const double> costs) {
  for (Stage& stage : stages_) stage.free = 0;
  for (size_t k = 0; k < order_.chunk.size(); ++k) {
    const uint32_t i = order_.microbatch[k];
    const uint32_t chunk = order_.chunk[k];
    double arrived = chunk == 0 ? 0 : ring_storage_[i] + pipeline_.transfer;
    for (uint32_t s = 0; s < pipeline_.stages; ++s) {
      const uint32_t q = chunk * pipeline_.stages + s;
      stages_[s].free = std::max(stages_[s].free, arrived) + costs[i] * forward_share_[q];
      arrived = stages_[s].free + pipeline_.transfer;
    }
    ring_storage_[i] = stages_.back().free;
  }
  return stages_.back().free;
}

bool PipelineSimulator::Advance(uint32_t s, std::span<const double> costs) {
  Stage& stage = stages_[s];
  const uint64_t all = order_.chunk.size();
  const uint32_t mask = ring_ - 1;
  const uint32_t last = pipeline_.virtual_stages() - 1;
  const uint64_t before = stage.forwards + stage.backwards;
  while ((pipeline_.forward_only ? stage.forwards : stage.backwards) < all) {
    if (stage.forwards < all && stage.forwards <= stage.backwards + stage.warmup) {
      const uint32_t i = order_.microbatch[stage.forwards];
      const uint32_t q = order_.chunk[stage.forwards] * pipeline_.stages + s;
      double begin = stage.free;
      if (q > 0) {
        if (forward_[q - 1].done <= i) break;
        begin = std::max(begin, forward_[q - 1].at[i & mask] + pipeline_.transfer);
      }
      stage.free = begin + costs[i] * forward_share_[q];
      forward_[q].at[i & mask] = stage.free;
      forward_[q].done = i + 1;
      ++stage.forwards;
    } else {
      const uint32_t i = order_.microbatch[stage.backwards];
      const uint32_t chunk = pipeline_.chunks - 1 - order_.chunk[stage.backwards];
      const uint32_t q = chunk * pipeline_.stages + s;
      double begin = stage.free;
      if (q < last) {
        if (backward_[q + 1].done <= i) break;
        begin = std::max(begin, backward_[q + 1].at[i & mask] + pipeline_.transfer);
      }
      stage.free = begin + costs[i] * backward_share_[q];
      backward_[q].at[i & mask] = stage.free;
      backward_[q].done = i + 1;
      ++stage.backwards;
    }
  }
  return stage.forwards + stage.backwards > before;
}

double PipelineSimulator::Makespan(std::span<const double> costs, std::span<double> weights) {
  assert(mode_ == Mode::kTrace && weights.size() == costs.size());
  const double makespan = Makespan(costs);
  std::fill(weights.begin(), weights.end(), 0.0);
  if (costs.empty()) return makespan;
  const uint64_t works = order_.chunk.size() * (pipeline_.forward_only ? 1 : 2);
  uint32_t last_stage = 0;
  while (stages_[last_stage].free < makespan) ++last_stage;
  // Back from the last work, each time to that which it had to wait for.
  Work work = WorkOf(last_stage, works - 1);
  while (true) {
    const uint32_t i = MicrobatchOf(work);
    const uint32_t q = VirtualStageOf(work);
    weights[i] += work.backward ? backward_share_[q] : forward_share_[q];
    const uint64_t number = NumberOf(work);
    const bool sent_forward = !work.backward && q > 0;
    const bool sent_back = work.backward && q + 1 < pipeline_.virtual_stages();
    if (sent_forward || sent_back) {
      const Work sender = WorkOn(sent_forward ? q - 1 : q + 1, work.backward, i);
      const double came = EndOf(sender) + pipeline_.transfer;
      if (number == 0 || came > EndOf(WorkOf(work.stage, number - 1))) {
        work = sender;
        continue;
      }
    }
    if (number == 0) return makespan;
    work = WorkOf(work.stage, number - 1);
  }
}

PipelineSimulator::Work PipelineSimulator::WorkOf(uint32_t stage, uint64_t n) const {
  const uint64_t all = order_.chunk.size();
  const uint64_t warmup = stages_[stage].warmup;
  if (n < warmup) return {stage, false, n};
  // A forward and a backward in turns, as long as there are forwards.
  const uint64_t turn = n - warmup;
  if (turn >= 2 * (all - warmup)) return {stage, true, n - all};
  return {stage, turn % 2 == 1, turn % 2 == 1 ? turn / 2 : warmup + turn / 2};
}

uint64_t PipelineSimulator::NumberOf(const Work& work) const {
  const uint64_t all = order_.chunk.size();
  const uint64_t warmup = stages_[work.stage].warmup;
  const uint64_t k = work.position;
  if (work.backward) return k < all - warmup ? warmup + 2 * k + 1 : all + k;
  return k < warmup ? k : warmup + 2 * (k - warmup);
}

uint32_t PipelineSimulator::VirtualStageOf(const Work& work) const {
  const uint32_t chunk = order_.chunk[work.position];
  return (work.backward ? pipeline_.chunks - 1 - chunk : chunk) * pipeline_.stages + work.stage;
}

PipelineSimulator::Work PipelineSimulator::WorkOn(uint32_t virtual_stage, bool backward,
                                                  uint32_t microbatch) const {
  const uint32_t chunk = virtual_stage / pipeline_.stages;
  const uint64_t turn = backward ? pipeline_.chunks - 1 - chunk : chunk;
  const uint64_t group = pipeline_.interleaved ? pipeline_.group_size : microbatches_;
  const uint64_t position =
      microbatch / group * group * pipeline_.chunks + turn * group + microbatch % group;
  return {virtual_stage % pipeline_.stages, backward, position};
}

double PipelineSimulator::EndOf(const Work& work) const {
  const Ends& ends = (work.backward ? backward_ : forward_)[VirtualStageOf(work)];
  return ends.at[MicrobatchOf(work) & (ring_ - 1)];
}

double PipelineBound(const Pipeline& pipeline, std::span<const double> costs) {
  if (costs.empty()) return 0;
  const auto [cheapest, costliest] = std::minmax_element(costs.begin(), costs.end());
  return PipelineBound(pipeline, std::accumulate(costs.begin(), costs.end(), 0.0), *cheapest,
                       *costliest);
}

double PipelineBound(const Pipeline& pipeline, double work, double cheapest, double costliest) {
  const uint32_t way = pipeline.virtual_stages() - 1;
  double bound = costliest + (pipeline.forward_only ? 1 : 2) * way * pipeline.transfer;
  double before = 0;  // shares of the stages before this one, of the first chunk
  double after = 0;   // of those behind it, of the last chunk
  const uint32_t last_chunk = way + 1 - pipeline.stages;
  for (uint32_t s = 0; s < pipeline.stages; ++s) after += pipeline.ForwardShare(last_chunk + s);
  for (uint32_t s = 0; s < pipeline.stages; ++s) {
    after -= pipeline.ForwardShare(last_chunk + s);
    const double behind = pipeline.stages - 1 - s;
    const double others = pipeline.forward_only
                              ? (before + after) * cheapest + (s + behind) * pipeline.transfer
                              : before * cheapest + 2 * s * pipeline.transfer;
    bound = std::max(bound, pipeline.StageShare(s) * work + others);
    before += pipeline.ForwardShare(s) + pipeline.BackwardShare(s);
  }
  return bound;
}

}  // namespace batchplan
