#include "server/planner/time/simulator.h"

#include <algorithm>
#include <array>
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

// The end of the work before the first.
constexpr double kLongAgo = -std::numeric_limits<double>::infinity();

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
  shares_.push_back(0);  // of no work
  ticks_each_ = kTicksAWork * works();
  if (pipeline_.forward_only && mode == Mode::kTime) {
    ends_.resize(microbatches);
    return;
  }
  ends_.resize(wavefront_.ends());
  ends_.front() = kLongAgo;
  works_.resize(std::min(works(), kMostWorksKept) + pipeline_.stages);
  all_works_ = works() <= kMostWorksKept;
  if (all_works_) works_.resize(wavefront_.Next(works_).size());
  (all_works_ ? ticks_to_make_ : ticks_each_) += kTicksToPlaceAWork * works();
  if (mode == Mode::kTrace) {
    links_.resize(wavefront_.ends());
    links_.front().share = 2 * stages;
    last_.resize(pipeline_.stages);
    ForEachPiece([this](std::span<const PipelineWork> works) { LinkWorks(works); });
  }
}

void PipelineSimulator::ForEachPiece(const auto& use) {
  if (all_works_) {
    use(std::span<const PipelineWork>(works_));
    return;
  }
  wavefront_.Restart();
  while (!allowance_.stop_requested()) {
    const std::span<const PipelineWork> next = wavefront_.Next(works_);
    if (next.empty()) break;
    use(next);
  }
}

void PipelineSimulator::LinkWorks(std::span<const PipelineWork> works) {
  for (const PipelineWork& work : works) {
    links_[work.end] = {.before = last_[work.stage],
                        .sender = work.after,
                        .microbatch = work.microbatch,
                        .share = work.share};
    last_[work.stage] = work.end;
  }
}

double PipelineSimulator::Makespan(std::span<const double> costs) {
  assert(costs.size() == microbatches_);
  if (costs.empty()) return 0;
  ++simulations_;
  if (pipeline_.forward_only && mode_ == Mode::kTime) return ForwardsAlone(costs);
  std::fill(free_.begin(), free_.end(), 0.0);
  const WorkTimes<double> times = {.costs = costs,
                                   .shares = shares_,
                                   .transfer = pipeline_.transfer,
                                   .free = free_,
                                   .ends = ends_};
  ForEachPiece([&](std::span<const PipelineWork> works) { RunWorks(works, times); });
  return *std::max_element(free_.begin(), free_.end());
}

Four PipelineSimulator::Makespans(std::span<const Four> costs, size_t lists) {
  assert(mode_ == Mode::kTrace && costs.size() == microbatches_);
  Four makespans;
  if (costs.empty()) return makespans;
  simulations_ += lists;
  if (free_of_four_.empty()) {
    free_of_four_.resize(pipeline_.stages);
    ends_of_four_.resize(wavefront_.ends());
    ends_of_four_.front() = {{kLongAgo, kLongAgo, kLongAgo, kLongAgo}};
  }
  std::fill(free_of_four_.begin(), free_of_four_.end(), Four());
  const WorkTimes<Four> times = {.costs = costs,
                                 .shares = shares_,
                                 .transfer = pipeline_.transfer,
                                 .free = free_of_four_,
                                 .ends = ends_of_four_};
  ForEachPiece([&](std::span<const PipelineWork> works) { RunWorks(works, times); });
  for (const Four& free : free_of_four_) {
    for (size_t i = 0; i < 4; ++i) makespans[i] = std::max(makespans[i], free[i]);
  }
  return makespans;
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

uint32_t PipelineSimulator::LastWork(const auto& free) const {
  uint32_t last_stage = 0;
  for (uint32_t stage = 1; stage < pipeline_.stages; ++stage) {
    if (free(stage) > free(last_stage)) last_stage = stage;
  }
  return last_[last_stage];
}

double PipelineSimulator::Makespan(std::span<const double> costs, std::span<double> weights) {
  assert(mode_ == Mode::kTrace && weights.size() == microbatches_);
  const double makespan = Makespan(costs);
  std::fill(weights.begin(), weights.end(), 0.0);
  if (weights.empty() || allowance_.stop_requested()) return makespan;
  // Back from the last work, each time to the work that it had to wait for.
  for (uint32_t work = LastWork([this](uint32_t stage) { return free_[stage]; }); work != 0;) {
    const Link& link = links_[work];
    weights[link.microbatch] += shares_[link.share];
    work = link.Either(ends_[link.sender] + pipeline_.transfer > ends_[link.before]);
  }
  return makespan;
}

void PipelineSimulator::TraceLists(std::span<const std::span<double>> weights) const {
  assert(mode_ == Mode::kTrace && weights.size() <= 4);
  for (const std::span<double> of_list : weights) std::ranges::fill(of_list, 0.0);
  if (microbatches_ == 0 || allowance_.stop_requested()) return;
  // In turns, as each way back alone is a chain of loads. Behind the first work a way goes on to
  // work 0, which is of no micro-batch.
  std::array<uint32_t, 4> works = {};
  for (size_t i = 0; i < weights.size(); ++i) {
    works[i] = LastWork([&](uint32_t stage) { return free_of_four_[stage][i]; });
  }
  for (bool ended = false; !ended;) {
    ended = true;
    for (size_t i = 0; i < weights.size(); ++i) {
      const Link& link = links_[works[i]];
      weights[i][link.microbatch] += shares_[link.share];
      works[i] = link.Either(ends_of_four_[link.sender][i] + pipeline_.transfer >
                             ends_of_four_[link.before][i]);
      ended &= works[i] == 0;
    }
  }
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
