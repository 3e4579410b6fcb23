#include "server/planner/ranks/bounds.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <numeric>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "server/planner/balance/count_bound.h"
#include "server/planner/balance/step_time_bound.h"
#include "server/planner/packing/lower_bounds.h"
#include "server/planner/pass/context_problem.h"
#include "server/planner/pass/context_time.h"
#include "server/planner/pass/mini_batch_tree.h"
#include "server/planner/ranks/fill_bins.h"
#include "server/planner/ranks/tree_bounds.h"
#include "server/planner/time/step_clock.h"

namespace batchplan {
namespace {

// Sums of doubles in another order may be below a bound on pipelines by 1 / kRounding of it.
constexpr Cost kRounding = 10'000'000'000;

// The micro-batches of each rank if there are this many in all.
uint64_t PerRank(uint64_t microbatches, uint32_t ranks, const CountRule& counts) {
  return counts.RoundUp((microbatches + ranks - 1) / ranks);
}

// The items with the sums of their sequences as lengths, in either layout: a padded micro-batch has
// at least the tokens of its sequences.
Items Summed(const Pass& pass, Items items) {
  if (pass.options().layout == Layout::kPacked) return items;
  for (uint32_t item = 0; item < items.size(); ++item) {
    items.lengths[item] = 0;
    for (SequenceIndex sequence : items.sequences[item]) {
      items.lengths[item] += pass.RoomOf(sequence);
    }
  }
  return items;
}

BinLimits LimitsOf(const Pass& pass) {
  if (pass.options().layout == Layout::kPacked) return pass.bin_limits();
  constexpr uint64_t kMost = std::numeric_limits<uint32_t>::max();
  return {.capacity = static_cast<uint32_t>(std::min(pass.padded_limits().tokens, kMost)),
          .max_sequences = static_cast<uint32_t>(std::min(pass.padded_limits().sequences, kMost))};
}

// A lower bound on the micro-batches of all ranks together for these items; `possible` as for
// FewestPackedPerRank.
uint64_t LeastPacked(const PackItems& items, const BinLimits& limits, uint32_t ranks,
                     const CountRule& counts, uint64_t possible) {
  // If all ranks together need more than this, a rank needs `possible`.
  const uint64_t below = std::max<uint64_t>(1, counts.LeastThatNeeds(possible)) - 1;
  constexpr uint64_t kMost = std::numeric_limits<uint64_t>::max();
  const uint64_t enough = below < kMost / ranks ? below * ranks + 1 : kMost;
  return LowerBoundBins(items, limits, enough);
}

// A lower bound on the step time of ranks with this much work. Each micro-batch has at least the
// cheapest of `costs`, or nothing if it may be empty, and one has the costliest.
Cost StepBound(const Pass& pass, std::span<const Cost> costs, Cost work) {
  if (pass.pipeline() == nullptr) return work;
  const auto [cheapest, costliest] = std::minmax_element(costs.begin(), costs.end());
  const Cost fixed = pass.cost().OfMicrobatch();
  const Cost bound =
      pass.clock().Bound(work, (pass.allow_empty() ? 0 : *cheapest) + fixed, *costliest + fixed);
  return bound - bound / kRounding;
}

Cost StepBound(const Pass& pass, const MiniBatchItems& items, Cost work) {
  return pass.pipeline() == nullptr ? work : StepBound(pass, items.get().costs, work);
}

// A lower bound on the time of phases beside the rest of micro-batches. Each phase is bounded as a
// batch of its own, since a slot's time is the sum of its phases' times. A dealt load runs at least
// as long as the mean rank and as its largest item.
Cost PhasesBound(const Pass& pass, const MiniBatchItems& mini_batch, const Allowance& allowance) {
  if (pass.loads().phases().empty()) return 0;
  const Items& items = mini_batch.get();
  Cost bound = 0;
  for (const LoadPhase& phase : pass.loads().phases()) {
    const auto cost_of = [&](double value) {
      return static_cast<Cost>(pass.cost().FromUnits(phase.per_unit * value));
    };
    if (phase.dealt) {
      double sum = 0;
      double largest = 0;
      for (const SequenceIndex sequence : items.sequences.all()) {
        for (const double item : pass.loads().given().ItemsOf(phase.load, sequence)) {
          sum += item;
          largest = std::max(largest, item);
        }
      }
      bound += std::max(cost_of(sum / pass.ranks()), cost_of(largest));
      continue;
    }
    std::vector<Cost> costs;
    costs.reserve(items.size());
    for (uint32_t item = 0; item < items.size(); ++item) {
      double sum = 0;
      for (const SequenceIndex sequence : items.sequences[item]) {
        sum += pass.loads().given().Of(phase.load, sequence);
      }
      costs.push_back(cost_of(sum));
    }
    const PackItems of_phase = {.lengths = items.lengths, .counts = items.counts, .loads = costs};
    // Rows of sequences that share hold more than their lengths say.
    bound += pass.prefixes() != nullptr
                 ? AccumulatedBound(of_phase, pass.ranks())
                 : LockstepBound(of_phase, LimitsOf(pass), pass.ranks(), allowance);
  }
  return bound;
}

// Bounds if ranks are given: each rank needs the micro-batches of its own sequences, and runs as
// long as they do.
MiniBatchBounds BoundsOfShares(const Pass& pass, const MiniBatchItems& mini_batch,
                               const Placement& placement, const Allowance& allowance) {
  const SequenceLists shares = GivenShares(pass, mini_batch.sequences());
  uint64_t most_needed = 1;
  Items all;
  std::vector<uint32_t> rank_of;
  Cost busiest = 0;
  for (uint32_t rank = 0; rank < shares.size(); ++rank) {
    if (shares[rank].empty()) continue;
    const Items own = Summed(pass, pass.ItemsOf(shares[rank]));
    most_needed = std::max<uint64_t>(
        most_needed,
        pass.options().layout == Layout::kPacked
            ? LeastPacked(own.ForPacking(), pass.bin_limits(), 1, pass.counts(), placement.slots)
            : FewestPadded(pass, pass.ItemsFrom(SequenceLists::Singles(shares[rank]))));
    busiest = std::max(busiest, std::accumulate(own.costs.begin(), own.costs.end(), Cost{0}));
    all.lengths.insert(all.lengths.end(), own.lengths.begin(), own.lengths.end());
    all.counts.insert(all.counts.end(), own.counts.begin(), own.counts.end());
    all.costs.insert(all.costs.end(), own.costs.begin(), own.costs.end());
    rank_of.resize(all.lengths.size(), rank);
  }
  const uint64_t fewest = pass.counts().RoundUp(most_needed);
  Cost bound = busiest;
  if (pass.synchronization() == Synchronization::kLockstep) {
    const Cost proven = placement.proven.lockstep_time;
    bound = proven > 0 ? proven
                       : LockstepBoundOfRanks(all.ForPacking(), LimitsOf(pass), pass.ranks(),
                                              rank_of, allowance);
  }
  const Cost work =
      bound + PhasesBound(pass, mini_batch, allowance) + pass.cost().OfMicrobatch() * fewest;
  return {.slots = fewest, .ideal_slots = fewest, .step_time = StepBound(pass, mini_batch, work)};
}

// What the mean of `ranks` ranks takes for these sequences with the loads that are part of their
// rows, which trees leave out; 0: there are none.
Cost MeanWithLoads(const Pass& pass, std::span<const SequenceIndex> sequences, uint32_t ranks) {
  Cost in_rows = 0;
  Cost in_phases = 0;
  for (const SequenceIndex sequence : sequences) {
    in_rows += pass.loads().InMicrobatch(sequence);
    in_phases += pass.loads().OfAll(sequence) - pass.loads().InMicrobatch(sequence);
  }
  return in_rows == 0 ? 0 : (UniqueOf(pass, sequences).computation - in_phases) / ranks;
}

// Bounds with shared prefixes, of all ranks together or, if ranks are given, of each by itself.
MiniBatchBounds BoundsOfTrees(const Pass& pass, const MiniBatchItems& mini_batch,
                              const Allowance& allowance) {
  uint64_t fewest = 1;
  Cost bound = 0;
  const auto add = [&](std::span<const SequenceIndex> sequences, uint32_t ranks) {
    if (sequences.empty()) return;
    const TreeBounds bounds(pass, sequences);
    fewest = std::max(fewest, PerRank(bounds.FewestMicrobatches(), ranks, pass.counts()));
    bound = std::max({bound, bounds.StepTime(ranks, pass.synchronization()),
                      MeanWithLoads(pass, sequences, ranks)});
  };
  if (pass.given_ranks().empty()) {
    add(mini_batch.sequences(), pass.ranks());
  } else {
    const SequenceLists shares = GivenShares(pass, mini_batch.sequences());
    for (size_t rank = 0; rank < shares.size(); ++rank) add(shares[rank], 1);
  }
  fewest = pass.counts().RoundUp(fewest);
  const Cost work =
      bound + PhasesBound(pass, mini_batch, allowance) + pass.cost().OfMicrobatch() * fewest;
  return {.slots = fewest, .ideal_slots = fewest, .step_time = StepBound(pass, mini_batch, work)};
}

MiniBatchBounds BoundsOfGroups(const Pass& pass, std::span<const SequenceIndex> mini_batch,
                               const Allowance& allowance) {
  const absl::StatusOr<ContextProblem> problem =
      ContextProblemOf(pass, pass.ItemLists(mini_batch), allowance);
  if (!problem.ok()) return {};
  uint64_t tokens = 0;
  for (const SequenceIndex sequence : mini_batch) tokens += pass.aligned()[sequence.value()];
  const uint64_t slot =
      uint64_t{pass.topology().data_parallel} * pass.options().max_tokens_per_microbatch;
  return {.slots = FewestContextSlots(*problem),
          .ideal_slots = (tokens + slot - 1) / slot,
          .step_time = ContextBound(*problem)};
}

// The bound on the step time without fixed costs.
Cost SequencesBound(const Pass& pass, const MiniBatchItems& mini_batch, Cost lockstep_proven,
                    const Allowance& allowance) {
  Cost bound = lockstep_proven;
  const bool items_are_units = !pass.groups_keep_rank() || pass.groups_keep_microbatch();
  if (pass.synchronization() == Synchronization::kLockstep) {
    if (bound == 0) {
      const auto of_items = [&](const Items& items) {
        return LockstepBound(items.ForPacking(), LimitsOf(pass), pass.ranks(), allowance);
      };
      bound = pass.options().layout == Layout::kPacked ? of_items(mini_batch.get())
                                                       : of_items(Summed(pass, mini_batch.get()));
    }
    // At least AccumulatedBound of the same items.
    if (items_are_units) return bound;
  }
  // In lockstep too every rank runs at least as long as its own micro-batches.
  if (items_are_units) return AccumulatedBound(mini_batch.get().ForPacking(), pass.ranks());
  const Items units = pass.ItemsFrom(pass.UnitLists(mini_batch.sequences()));
  return std::max(bound, AccumulatedBound(units.ForPacking(), pass.ranks()));
}

uint64_t FewestPaddedPerRank(const Pass& pass, std::span<const SequenceIndex> mini_batch) {
  // By single sequences: groups that stay together can only need more.
  const Items items = pass.ItemsFrom(SequenceLists::Singles(mini_batch));
  return PerRank(FewestPadded(pass, items), pass.ranks(), pass.counts());
}

}  // namespace

uint64_t FewestMicrobatchesPerRank(const Pass& pass, const MiniBatchItems& mini_batch,
                                   uint64_t possible) {
  if (pass.prefixes() != nullptr) {
    const TreeBounds bounds(pass, mini_batch.sequences());
    return PerRank(bounds.FewestMicrobatches(), pass.ranks(), pass.counts());
  }
  return pass.options().layout == Layout::kPacked
             ? FewestPackedPerRank(mini_batch.get().ForPacking(), pass.bin_limits(), pass.ranks(),
                                   pass.counts(), possible)
             : FewestPaddedPerRank(pass, mini_batch.sequences());
}

uint64_t FewestPackedPerRank(const PackItems& items, const BinLimits& limits, uint32_t ranks,
                             const CountRule& counts, uint64_t possible) {
  return PerRank(LeastPacked(items, limits, ranks, counts, possible), ranks, counts);
}

namespace {

// Bounds with kinds apart. If all sequences of a slot are of one kind, no slot serves two kinds,
// and in lockstep their times add up.
MiniBatchBounds BoundsOfKinds(const Pass& pass, std::span<const SequenceIndex> mini_batch,
                              const Placement& placement, const Allowance& allowance) {
  const Pass of_any = pass.OfOneKind(/*may_be_empty=*/true, pass.counts());
  MiniBatchBounds bounds = BoundsWithoutCounts(of_any, mini_batch, placement, allowance);
  if (pass.options().kinds_per_slot != KindsPerSlot::kAlike) return bounds;
  std::map<uint32_t, std::vector<SequenceIndex>> kinds;
  for (const SequenceIndex sequence : mini_batch) {
    kinds[pass.kinds()[sequence.value()]].push_back(sequence);
  }
  const Pass of_one = pass.OfOneKind(/*may_be_empty=*/true, CountRule());
  Placement any;
  any.slots = placement.slots;
  uint64_t slots = 0;
  Cost time = 0;
  for (const auto& [kind, own] : kinds) {
    const MiniBatchBounds of_kind = BoundsWithoutCounts(of_one, own, any, allowance);
    slots += of_kind.slots;
    time += of_kind.step_time;
  }
  slots = pass.counts().RoundUp(slots);
  if (slots > bounds.slots) bounds.slots = bounds.ideal_slots = slots;
  const bool adds_up =
      pass.synchronization() == Synchronization::kLockstep && pass.pipeline() == nullptr;
  if (adds_up) bounds.step_time = std::max(bounds.step_time, time);
  return bounds;
}

// What the least numbers of sequences in micro-batches and on ranks prove of the step time, in at
// least as many slots as `bounds` has; 0: nothing, or no more than it has.
Cost CountBound(const Pass& pass, std::span<const SequenceIndex> mini_batch,
                const MiniBatchBounds& bounds) {
  // Groups of several sizes are as many as a plan likes. Sequences that share do
  // not add up.
  if (pass.sizes_differ() || pass.prefixes() != nullptr) return 0;
  // Of groups that stay in one micro-batch, every micro-batch has one.
  const bool by_groups = pass.groups_keep_microbatch() && pass.rank_multiple() == 1;
  LeastCounts least = {.slots = bounds.slots};
  if (!pass.allow_empty()) least.in_microbatch = by_groups ? 1 : pass.row_multiple();
  if (pass.keeps_counts() && !by_groups) least.on_rank = mini_batch.size() / pass.ranks();
  if (least.in_microbatch == 0 && least.on_rank == 0) return 0;
  const std::vector<Cost> costs =
      by_groups ? pass.ItemsFrom(pass.ItemLists(mini_batch)).costs : pass.SequenceCosts(mini_batch);
  const Cost fixed = pass.cost().OfMicrobatch() * bounds.slots;
  // The bound of a pipeline is not a sum over slots.
  const bool comparable = pass.pipeline() == nullptr;
  const Cost proven = comparable ? bounds.step_time - std::min(bounds.step_time, fixed) : 0;
  // In lockstep too every rank runs at least as long as its own micro-batches.
  Cost work = AccumulatedCountBound(costs, least, proven);
  if (pass.synchronization() == Synchronization::kLockstep) {
    work = std::max(work, LockstepCountBound(costs, pass.ranks(), least, proven));
  }
  return work == 0 ? 0 : StepBound(pass, costs, work + fixed);
}

}  // namespace

MiniBatchBounds BoundsWithoutCounts(const Pass& pass, std::span<const SequenceIndex> mini_batch,
                                    const Placement& placement, const Allowance& allowance) {
  if (pass.sizes_differ()) return BoundsOfGroups(pass, mini_batch, allowance);
  if (pass.rank_multiple() > 1) {
    // The proofs are about the lists that were put together.
    Placement of_any;
    of_any.slots = placement.slots;
    return BoundsWithoutCounts(pass.WithoutMultiples(), mini_batch, of_any, allowance);
  }
  if (pass.keeps_kinds()) return BoundsOfKinds(pass, mini_batch, placement, allowance);
  const MiniBatchItems items(pass, mini_batch);
  if (pass.prefixes() != nullptr) return BoundsOfTrees(pass, items, allowance);
  if (!pass.given_ranks().empty()) {
    return BoundsOfShares(pass, items, placement, allowance);
  }
  const Proven& proven = placement.proven;
  // A bound proven by packing is the best of the same bounds, or a better one.
  const uint64_t fewest = proven.microbatches > 0
                              ? PerRank(proven.microbatches, pass.ranks(), pass.counts())
                              : FewestMicrobatchesPerRank(pass, items, placement.slots);
  const Cost work = SequencesBound(pass, items, proven.lockstep_time, allowance) +
                    PhasesBound(pass, items, allowance) + pass.cost().OfMicrobatch() * fewest;
  return {.slots = fewest, .ideal_slots = fewest, .step_time = StepBound(pass, items, work)};
}

MiniBatchBounds BoundsOf(const Pass& pass, std::span<const SequenceIndex> mini_batch,
                         const Placement& placement, const Allowance& allowance) {
  MiniBatchBounds bounds = BoundsWithoutCounts(pass, mini_batch, placement, allowance);
  bounds.step_time = std::max(bounds.step_time, CountBound(pass, mini_batch, bounds));
  return bounds;
}

double IdealStepTime(const Pass& pass, double computation, uint64_t slots) {
  const double of_sequences = pass.computation().ToUnits(computation);
  const double of_slot = pass.computation().ToUnits(pass.computation().OfMicrobatch());
  const double stages = pass.topology().pipeline_parallel;
  // Both formulas are equal except for rounding, on which plans and metrics depend.
  if (pass.sizes_differ()) {
    return (of_sequences * pass.sizes().front().ranks / pass.pool() +
            of_slot * static_cast<double>(slots)) /
           stages;
  }
  return (of_sequences + of_slot * static_cast<double>(slots * pass.ranks())) / pass.ranks() /
         stages;
}

}  // namespace batchplan
