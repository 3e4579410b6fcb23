#include "server/planner/time/step_clock.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "server/planner/time/pipeline_time.h"
#include "server/planner/time/simulator.h"

namespace batchplan {
namespace {

// Beyond this, the time is all waiting for transfers.
constexpr double kLongest = 0x1p63;

// When the ranks of a pool are free after the slots run so far. Kept by the groups of the last
// slot, whose ranks are free at the same time. So the work for a slot goes by its groups and those
// of the slot before, however many ranks there are.
template <typename Number>
class FreeTimes {
 public:
  explicit FreeTimes(uint32_t pool) : spans_{{.end = pool, .free = 0}} {}

  // Each group begins when all of its ranks are free.
  void Run(std::span<const typename TimedSlotsOf<Number>::Group> slot) {
    next_.clear();
    size_t at = 0;  // the span that the next group begins in
    uint32_t end = 0;
    for (const auto& group : slot) {
      end += group.ranks;
      Number begin = spans_[at].free;
      while (spans_[at].end < end) begin = std::max(begin, spans_[++at].free);
      if (spans_[at].end == end) ++at;
      next_.push_back({.end = end, .free = begin + group.cost});
    }
    spans_.swap(next_);
  }

  // When the last rank is free.
  Number Latest() const {
    Number latest = 0;
    for (const Span& span : spans_) latest = std::max(latest, span.free);
    return latest;
  }

 private:
  // Ranks from the end of the previous span on.
  struct Span {
    uint32_t end = 0;
    Number free = 0;
  };

  std::vector<Span> spans_;
  std::vector<Span> next_;
};

template <typename Group>
std::vector<uint32_t> EndsOfGroups(std::span<const Group> slot) {
  std::vector<uint32_t> ends;
  ends.reserve(slot.size());
  uint32_t rank = 0;
  for (const Group& group : slot) ends.push_back(rank += group.ranks);
  return ends;
}

// Where the parts of the pool end: the ranks at which a group ends in every slot.
template <typename Number>
std::vector<uint32_t> EndsOfParts(const TimedSlotsOf<Number>& slots) {
  std::vector<uint32_t> common = EndsOfGroups(slots[0]);
  std::vector<uint32_t> both;
  for (size_t s = 1; s < slots.size() && common.size() > 1; ++s) {
    both.clear();
    std::ranges::set_intersection(common, EndsOfGroups(slots[s]), std::back_inserter(both));
    std::swap(common, both);
  }
  return common;
}

template <typename Number>
PipelineTime TimeOnPipelines(const Pipeline& pipeline, Synchronization synchronization,
                             const TimedSlotsOf<Number>& slots, const Allowance& allowance) {
  std::vector<uint32_t> ends = {slots.pool()};
  if (synchronization == Synchronization::kAccumulated) {
    std::vector<uint32_t> parts = EndsOfParts(slots);
    if (parts.size() <= kMaxPipelineWorks / pipeline.virtual_stages() / slots.size()) {
      ends = std::move(parts);
    }
  }
  // Slot s of part p is number p * slots + s.
  std::vector<double> costliest(ends.size() * slots.size(), 0);
  for (size_t s = 0; s < slots.size(); ++s) {
    size_t part = 0;
    uint32_t rank = 0;
    for (const auto& group : slots[s]) {
      double& most = costliest[part * slots.size() + s];
      most = std::max(most, static_cast<double>(group.cost));
      rank += group.ranks;
      if (rank == ends[part]) ++part;
    }
  }
  return PipelineTimeOf(pipeline, Synchronization::kAccumulated, costliest, ends.size(), allowance);
}

// Without a pipeline.
template <typename Number>
Number TimeOf(Synchronization synchronization, const TimedSlotsOf<Number>& slots) {
  if (synchronization == Synchronization::kLockstep) {
    Number time = 0;
    for (size_t slot = 0; slot < slots.size(); ++slot) time += slots.Costliest(slot);
    return time;
  }
  FreeTimes<Number> free(slots.pool());
  for (size_t slot = 0; slot < slots.size(); ++slot) free.Run(slots[slot]);
  return free.Latest();
}

}  // namespace

TimedSlots TimedRanks(std::span<const Cost> costs, size_t ranks) {
  const size_t slots = costs.size() / ranks;
  TimedSlots timed;
  timed.Reserve(slots, costs.size());
  for (size_t slot = 0; slot < slots; ++slot) {
    for (size_t rank = 0; rank < ranks; ++rank) timed.Add(1, costs[rank * slots + slot]);
    timed.Close();
  }
  return timed;
}

TimedSlots TimedGroups(std::span<const Cost> costs, std::span<const uint32_t> sizes,
                       uint32_t pool) {
  TimedSlots timed;
  uint32_t ranks = 0;  // of the open slot
  for (size_t m = 0; m < costs.size(); ++m) {
    timed.Add(sizes[m], costs[m]);
    ranks += sizes[m];
    if (ranks < pool) continue;
    timed.Close();
    ranks = 0;
  }
  return timed;
}

StepDuration StepClock::Of(const TimedSlots& slots, const Allowance& allowance) const {
  if (slots.size() == 0) return {};
  if (pipeline_ == nullptr) return {.time = TimeOf(synchronization_, slots)};
  const PipelineTime time = TimeOnPipelines(*pipeline_, synchronization_, slots, allowance);
  return {.time = static_cast<Cost>(std::min(kLongest, time.makespan)),
          .makespan = time.makespan,
          .work = time.work};
}

double StepClock::Of(const TimedSlotsOf<double>& slots, const Allowance& allowance) const {
  if (slots.size() == 0) return 0;
  return pipeline_ == nullptr
             ? TimeOf(synchronization_, slots)
             : TimeOnPipelines(*pipeline_, synchronization_, slots, allowance).makespan;
}

bool StepClock::Affords(uint64_t slots, uint64_t microbatches, const Allowance& allowance) const {
  if (pipeline_ == nullptr) return true;
  const bool lockstep = synchronization_ == Synchronization::kLockstep;
  return allowance.Affords((kTicksAWork + kTicksToPlaceAWork) * 2 *
                           (lockstep ? slots : microbatches) * pipeline_->virtual_stages());
}

Cost StepClock::Bound(Cost work, Cost cheapest, Cost costliest) const {
  if (pipeline_ == nullptr) return work;
  const double bound = PipelineBound(*pipeline_, static_cast<double>(work),
                                     static_cast<double>(cheapest), static_cast<double>(costliest));
  return static_cast<Cost>(std::min(kLongest, bound));
}

}  // namespace batchplan
