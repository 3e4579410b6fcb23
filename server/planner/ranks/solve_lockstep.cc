// The number of slots comes from bounds and packers, their contents from BalanceLockstep.
//
// It starts at the fewest slots that the lower bounds on bins allow. If their bins have room to
// spare, BalanceLockstep fills them directly: alike (balance/alike_bins.h) if a great many items
// leave little room, else by longest processing time first. If it fails, or the room to spare is
// below 1/2000 of the tokens, the packers look for few bins (packing/fewest_bins.h): slots are
// raised to the number that these need, and the packing is the start of the search. One more slot
// costs every rank the fixed cost of a micro-batch, but may let the slots' maxima fall; it is tried
// if the step is more than a thousandth above its bound.

#include "server/planner/ranks/solve_lockstep.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "server/planner/balance/alike_bins.h"
#include "server/planner/balance/lockstep.h"
#include "server/planner/balance/step_time_bound.h"
#include "server/planner/packing/fewest_bins.h"
#include "server/planner/packing/packer.h"
#include "server/planner/ranks/bounds.h"
#include "server/planner/ranks/more_slots.h"

namespace batchplan {
namespace {

// Room to spare is little below 1 / kTightPart of the tokens.
constexpr uint64_t kTightPart = 2000;
// Up to this many items packing is quicker than all lower bounds.
constexpr size_t kMostToPackFirst = 4096;

class LockstepSlotsSolver {
 public:
  LockstepSlotsSolver(const LockstepSlotsTask& task, const Allowance& allowance)
      : task_(task),
        allowance_(allowance),
        tokens_(std::accumulate(task.items.lengths.begin(), task.items.lengths.end(), uint64_t{0})),
        found_(task.findings == nullptr ? own_ : *task.findings),
        slots_(found_.fewest_slots.Get(
            allowance,
            [&] { return FewestSlots(task.items, task.limits, task.ranks, task.counts); })),
        most_slots_(task.items.size() / task.ranks) {}

  std::optional<LockstepSlots> Run() {
    if (slots_ > most_slots_) return std::nullopt;
    bound_ = found_.bound.Get(allowance_, [&] {
      return LockstepBound(task_.items, task_.limits, task_.ranks, allowance_);
    });
    std::optional<LockstepSlots> first;
    if (!IsTight()) first = Balance(slots_, nullptr, /*start_only=*/false, FillsAlike());
    if (!first) {
      const uint64_t too_few = slots_;
      const FewestBins packed =
          PackFewest(task_.items, task_.limits, slots_ * task_.ranks, task_.effort, allowance_);
      fewest_bins_ = packed.bound;
      const uint64_t needed = (packed.bins.size() + task_.ranks - 1) / task_.ranks;
      slots_ = std::max(slots_, task_.counts.RoundUp(needed));
      if (slots_ > most_slots_) return std::nullopt;
      first = Balance(slots_, &packed.bins, /*start_only=*/slots_ == too_few || IsTight(),
                      slots_ != too_few && FillsAlike());
    }
    if (!first) return std::nullopt;
    const uint64_t bound = bound_ + slots_ * task_.per_microbatch;
    if (first->step_time > bound + bound / kWorthASlot) {
      first = TryMoreSlots(
          task_.counts, slots_, most_slots_, MorePackedSlots(task_.effort), *std::move(first),
          [&](uint64_t slots) { return allowance_.spent() ? std::nullopt : Balance(slots); });
    }
    if (allowance_.stop_requested()) return std::nullopt;
    return first;
  }

 private:
  // Whether the bins have so little room to spare that only a packer fills them.
  bool IsTight() const {
    const uint64_t room = slots_ * task_.ranks * task_.limits.capacity;
    return room - tokens_ < tokens_ / kTightPart;
  }

  bool FillsAlike() const {
    return WorthFillingAlike(task_.items.size(), tokens_, task_.limits, task_.ranks, slots_);
  }

  std::optional<LockstepSlots> Balance(uint64_t slots, const Bins* start = nullptr,
                                       bool start_only = false, bool fill_alike = false) const {
    if (allowance_.stop_requested()) return std::nullopt;
    std::optional<BalancedBins> balanced = BalanceLockstep({.items = task_.items,
                                                            .limits = task_.limits,
                                                            .ranks = task_.ranks,
                                                            .slots = static_cast<uint32_t>(slots),
                                                            .rank_of = {},
                                                            .equal_counts = task_.equal_counts,
                                                            .start = start,
                                                            .fill_alike = fill_alike,
                                                            .start_only = start_only,
                                                            .enough = bound_,
                                                            .effort = task_.effort,
                                                            .allowance = allowance_,
                                                            .findings = task_.findings});
    if (!balanced) return std::nullopt;
    const uint64_t step_time = balanced->step_time + slots * task_.per_microbatch;
    if (task_.solved) task_.solved(slots, balanced->bins, step_time);
    return LockstepSlots{.bins = std::move(balanced->bins),
                         .slots = slots,
                         .step_time = step_time,
                         .bound = bound_,
                         .fewest_bins = fewest_bins_};
  }

  const LockstepSlotsTask& task_;
  const Allowance& allowance_;
  const uint64_t tokens_;
  LockstepFindings own_;
  LockstepFindings& found_;
  uint64_t slots_;
  const uint64_t most_slots_;
  uint64_t bound_ = 0;
  uint64_t fewest_bins_ = 0;
};

}  // namespace

uint64_t FewestSlots(const PackItems& items, const BinLimits& limits, uint32_t ranks,
                     const CountRule& counts) {
  uint64_t possible = std::numeric_limits<uint64_t>::max();
  if (items.size() <= kMostToPackFirst) {
    const uint64_t bins = PackFirstFitDecreasing(items, limits).size();
    possible = counts.RoundUp((bins + ranks - 1) / ranks);
  }
  return FewestPackedPerRank(items, limits, ranks, counts, possible);
}

std::optional<LockstepSlots> SolveLockstep(const LockstepSlotsTask& task,
                                           const Allowance& allowance) {
  return LockstepSlotsSolver(task, allowance).Run();
}

}  // namespace batchplan
