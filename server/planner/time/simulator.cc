#include "server/planner/time/simulator.h"

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <limits>
#include <numeric>
#include <utility>

namespace batchplan {

namespace {

// Up to this many works are prepared once. More are prepared in every simulation, this many at a
// time.
constexpr uint64_t kMostWorksKept = 1 << 16;

}  // namespace

PipelineSimulator::PipelineSimulator(Pipeline pipeline, uint32_t microbatches, Mode mode,
                                     Allowance allowance)
    : pipeline_(std::move(pipeline)),
      microbatches_(microbatches),
      mode_(mode),
      allowance_(std::move(allowance)),
      order_(RunOrderOf(pipeline_, microbatches)),
      wavefront_(pipeline_, order_, microbatches, mode == Mode::kTrace),
      free_(pipeline_.stages) {
  const uint32_t stages = pipeline_.virtual_stages();
  for (uint32_t q = 0; q < stages; ++q) shares_.push_back(pipeline_.ForwardShare(q));
  for (uint32_t q = 0; q < stages; ++q) shares_.push_back(pipeline_.BackwardShare(q));
  ticks_each_ = kTicksAWork * works();
  if (pipeline_.forward_only && mode == Mode::kTime) {
    ends_.resize(microbatches);
    return;
  }
  ends_.resize(wavefront_.ends());
  ends_.front() = -std::numeric_limits<double>::infinity();
  works_.resize(std::min(works(), kMostWorksKept) + pipeline_.stages);
  all_works_ = works() <= kMostWorksKept;
  if (all_works_) works_.resize(wavefront_.Next(works_).size());
  (all_works_ ? ticks_to_make_ : ticks_each_) += kTicksToPlaceAWork * works();
}

double PipelineSimulator::Makespan(std::span<const double> costs) {
  assert(costs.size() == microbatches_);
  if (costs.empty()) return 0;
  ++simulations_;
  if (pipeline_.forward_only && mode_ == Mode::kTime) return ForwardsAlone(costs);
  std::fill(free_.begin(), free_.end(), 0.0);
  if (all_works_) {
    Run(works_, costs);
  } else {
    wavefront_.Restart();
    while (!allowance_.stop_requested()) {
      const std::span<const PipelineWork> next = wavefront_.Next(works_);
      if (next.empty()) break;
      Run(next, costs);
    }
  }
  return *std::max_element(free_.begin(), free_.end());
}

void PipelineSimulator::Run(std::span<const PipelineWork> works, std::span<const double> costs) {
  const double transfer = pipeline_.transfer;
  for (const PipelineWork& work : works) {
    const double begin = std::max(free_[work.stage], ends_[work.after] + transfer);
    const double end = begin + costs[work.microbatch] * shares_[work.share];
    free_[work.stage] = end;
    ends_[work.end] = end;
  }
}

// Position by position, each through all stages, so that the works that a stage waits for have run
// before.
double PipelineSimulator::ForwardsAlone(std::span<const double> costs) {
  std::fill(free_.begin(), free_.end(), 0.0);
  for (size_t k = 0; k < order_.chunk.size(); ++k) {
    const uint32_t i = order_.microbatch[k];
    const uint32_t chunk = order_.chunk[k];
    double arrived = chunk == 0 ? 0 : ends_[i] + pipeline_.transfer;
    for (uint32_t s = 0; s < pipeline_.stages; ++s) {
      const uint32_t q = chunk * pipeline_.stages + s;
      free_[s] = std::max(free_[s], arrived) + costs[i] * shares_[q];
      arrived = free_[s] + pipeline_.transfer;
    }
    ends_[i] = free_.back();
  }
  return free_.back();
}

double PipelineSimulator::Makespan(std::span<const double> costs, std::span<double> weights) {
  assert(mode_ == Mode::kTrace && weights.size() == costs.size());
  const double makespan = Makespan(costs);
  std::fill(weights.begin(), weights.end(), 0.0);
  if (costs.empty() || allowance_.stop_requested()) return makespan;
  const uint64_t works = order_.chunk.size() * (pipeline_.forward_only ? 1 : 2);
  uint32_t last_stage = 0;
  while (free_[last_stage] < makespan) ++last_stage;
  // Back from the last work, each time to the work that it had to wait for.
  Work work = WorkOf(last_stage, works - 1);
  while (true) {
    const uint32_t i = MicrobatchOf(work);
    const uint32_t q = VirtualStageOf(work);
    weights[i] += shares_[work.backward ? pipeline_.virtual_stages() + q : q];
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
  const uint64_t warmup = pipeline_.Warmup(stage, microbatches_);
  if (n < warmup) return {stage, false, n};
  // A forward and a backward in turns, as long as there are forwards.
  const uint64_t turn = n - warmup;
  if (turn >= 2 * (all - warmup)) return {stage, true, n - all};
  return {stage, turn % 2 == 1, turn % 2 == 1 ? turn / 2 : warmup + turn / 2};
}

uint64_t PipelineSimulator::NumberOf(const Work& work) const {
  const uint64_t all = order_.chunk.size();
  const uint64_t warmup = pipeline_.Warmup(work.stage, microbatches_);
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
  return ends_[wavefront_.EndOf(VirtualStageOf(work), work.backward, MicrobatchOf(work))];
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
