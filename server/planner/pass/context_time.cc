#include "server/planner/pass/context_time.h"

#include <algorithm>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "absl/numeric/int128.h"

namespace batchplan {
namespace {

constexpr Cost kNever = std::numeric_limits<Cost>::max();

uint32_t SequencesOf(const ContextProblem& problem, uint32_t item) {
  return problem.counts.empty() ? 1 : problem.counts[item];
}

bool MayTake(const ContextProblem& problem, const ContextSize& size, uint32_t item) {
  if (size.tokens[item] > size.capacity) return false;
  return problem.max_sequences == 0 || SequencesOf(problem, item) <= problem.max_sequences;
}

// From `time` on an item may have a size that saves this much rank-time.
struct Fall {
  Cost time = 0;
  absl::uint128 saved = 0;
};

// whole * ranks * tokens / capacity, rounded down.
uint64_t PartOf(uint64_t whole, uint64_t ranks, uint64_t tokens, uint64_t capacity) {
  if (ranks * tokens <= std::numeric_limits<uint64_t>::max() / whole) {
    return whole * (ranks * tokens) / capacity;
  }
  return absl::Uint128Low64(absl::uint128(whole) * ranks * tokens / capacity);
}

// The unit of room: a full rank. A slot has this for each rank of the pool.
constexpr uint64_t kRoomOfARank = uint64_t{1} << 30;

// The least part of a slot's room that an item fills; all of it if the item fits no size.
uint64_t RoomOf(const ContextProblem& problem, uint32_t item) {
  uint64_t least = kRoomOfARank * problem.pool;
  for (const ContextSize& size : problem.sizes) {
    if (!MayTake(problem, size, item)) continue;
    least = std::min(least, PartOf(kRoomOfARank, size.ranks, size.tokens[item], size.capacity));
  }
  return least;
}

// The least that an item needs of a slot.
struct SlotNeed {
  absl::uint128 rank_time = 0;
  uint64_t room = 0;
};

// The most rank-time of items whose room together is at most `room`, and of a part of one more: the
// densest items, found by dividing at a median until the room is met. O(n). REQUIRES: all rank-time
// together below 2^62, as a pass scales its costs, `room` below 2^62, and no item without room.
absl::uint128 DensestWithin(std::span<SlotNeed> needs, absl::uint128 room) {
  const auto denser = [](const SlotNeed& a, const SlotNeed& b) {
    return a.rank_time * b.room > b.rank_time * a.room;
  };
  absl::uint128 rank_time = 0;
  while (!needs.empty()) {
    const size_t half = needs.size() / 2;
    std::nth_element(needs.begin(), needs.begin() + static_cast<ptrdiff_t>(half), needs.end(),
                     denser);
    absl::uint128 filled = 0;
    absl::uint128 gathered = 0;
    for (const SlotNeed& need : needs.first(half)) {
      filled += need.room;
      gathered += need.rank_time;
    }
    if (filled > room) {
      needs = needs.first(half);
      continue;
    }
    room -= filled;
    rank_time += gathered;
    const SlotNeed& middle = needs[half];
    if (middle.room > room) return rank_time + middle.rank_time * room / middle.room + 1;
    room -= middle.room;
    rank_time += middle.rank_time;
    needs = needs.subspan(half + 1);
  }
  return rank_time;
}

TimedSlots TimedContextSlots(const ContextProblem& problem, const ContextSlots& slots) {
  TimedSlots timed;
  for (const std::vector<ContextGroup>& slot : slots) {
    for (const ContextGroup& group : slot) {
      timed.Add(problem.sizes[group.size].ranks, ContextGroupCost(problem, group));
    }
    timed.Close();
  }
  return timed;
}

// The fewest slots with items of any plan.
uint64_t FewestFilledSlots(const ContextProblem& problem) {
  absl::uint128 taken = 0;
  uint64_t sequences = 0;
  for (uint32_t item = 0; item < problem.items(); ++item) {
    taken += RoomOf(problem, item);
    sequences += SequencesOf(problem, item);
  }
  const absl::uint128 slot = absl::uint128(kRoomOfARank) * problem.pool;
  uint64_t fewest = absl::Uint128Low64((taken + slot - 1) / slot);
  if (problem.max_sequences > 0) {
    const uint64_t groups = problem.pool / problem.sizes.front().ranks;
    const uint64_t most = groups * problem.max_sequences;
    fewest = std::max(fewest, (sequences + most - 1) / most);
  }
  return std::max<uint64_t>(fewest, 1);
}

// The least times, without fixed costs, of all slots and of the costliest item.
struct LeastTimes {
  Cost slots = 0;
  Cost longest = 0;
};

// ContextBound of items that cost `cost_of(size, item)`.
template <typename CostOf>
LeastTimes LeastTimesOf(const ContextProblem& problem, CostOf cost_of) {
  // The sum of the items' least rank-times, whatever the time; and the longest of their fastest
  // times.
  absl::uint128 work = 0;
  Cost longest = 0;
  // In lockstep, for the most that the longest slot can hold.
  const bool lockstep = problem.synchronization == Synchronization::kLockstep;
  std::vector<SlotNeed> needs;
  absl::uint128 in_longest = 0;
  std::vector<Cost> cheapest(problem.items(), 0);  // the time of the least rank-time
  for (uint32_t item = 0; item < problem.items(); ++item) {
    absl::uint128 least = 0;
    Cost fastest = kNever;
    for (const ContextSize& size : problem.sizes) {
      if (!MayTake(problem, size, item)) continue;
      const Cost time = cost_of(size, item);
      const absl::uint128 rank_time = absl::uint128(time) * size.ranks;
      if (fastest == kNever || rank_time < least) {
        least = rank_time;
        cheapest[item] = time;
      } else if (rank_time == least) {
        cheapest[item] = std::min(cheapest[item], time);
      }
      fastest = std::min(fastest, time);
    }
    if (fastest == kNever) continue;
    longest = std::max(longest, fastest);
    work += least;
    if (!lockstep) continue;
    const uint64_t room = RoomOf(problem, item);
    if (room == 0) {
      in_longest += least;
    } else {
      needs.push_back({.rank_time = least, .room = room});
    }
  }
  if (lockstep) {
    in_longest += DensestWithin(needs, absl::uint128(kRoomOfARank) * problem.pool);
  }
  // The other slots have at least the rest.
  const absl::uint128 rest = lockstep ? work - std::min(work, in_longest) : 0;
  // The least rank-time of the pool in the longest slot, or accumulated in the whole step.
  absl::uint128 pool_time = std::max(absl::uint128(longest) * problem.pool, work - rest);
  // Items whose cheapest size is too slow for that time have more rank-time, which falls as the
  // time grows.
  std::vector<Fall> falls;
  std::vector<std::pair<Cost, absl::uint128>> options;
  for (uint32_t item = 0; item < problem.items(); ++item) {
    if (absl::uint128(cheapest[item]) * problem.pool <= pool_time) continue;
    options.clear();
    for (const ContextSize& size : problem.sizes) {
      if (!MayTake(problem, size, item)) continue;
      const Cost time = cost_of(size, item);
      options.emplace_back(time, absl::uint128(time) * size.ranks);
    }
    std::sort(options.begin(), options.end());
    absl::uint128 least = options.front().second;
    for (const auto& [time, rank_time] : options) {
      if (rank_time >= least) continue;
      falls.push_back({.time = time, .saved = least - rank_time});
      work += least - rank_time;
      least = rank_time;
    }
  }
  std::sort(falls.begin(), falls.end(),
            [](const Fall& a, const Fall& b) { return a.time < b.time; });
  // Between two times at which the work falls it is constant. So the least time is that of the
  // work, or the later of the two.
  for (size_t next = 0;;) {
    while (next < falls.size() && absl::uint128(falls[next].time) * problem.pool <= pool_time) {
      work -= falls[next++].saved;
    }
    if (work - rest <= pool_time) break;
    pool_time = next == falls.size()
                    ? work - rest
                    : std::min(work - rest, absl::uint128(falls[next].time) * problem.pool);
  }
  return {.slots = absl::Uint128Low64((pool_time + rest + problem.pool - 1) / problem.pool),
          .longest = longest};
}

}  // namespace

Cost ContextGroupCost(const ContextProblem& problem, const ContextGroup& group) {
  const ContextSize& size = problem.sizes[group.size];
  Cost cost = problem.per_microbatch + (group.items.empty() ? 0 : size.whole_row);
  for (const uint32_t item : group.items) cost += size.Added(item);
  return cost;
}

Cost ContextTime(const ContextProblem& problem, const ContextSlots& slots,
                 const Allowance& allowance) {
  return problem.clock().Of(TimedContextSlots(problem, slots), allowance).time;
}

uint64_t FewestContextSlots(const ContextProblem& problem) {
  return problem.slots.RoundUp(FewestFilledSlots(problem));
}

Cost ContextBound(const ContextProblem& problem) {
  const StepClock clock = problem.clock();
  const Cost fixed = problem.per_microbatch;
  const uint64_t filled = FewestFilledSlots(problem);
  const uint64_t slots = problem.slots.RoundUp(filled);
  const LeastTimes whole = LeastTimesOf(
      problem, [](const ContextSize& size, uint32_t item) { return size.costs[item]; });
  // A slot costs at least its fixed cost, and the costliest slot at least the costliest item.
  const Cost bound = clock.Bound(whole.slots + slots * fixed, fixed, whole.longest + fixed);
  const bool lockstep = problem.synchronization == Synchronization::kLockstep;
  if (!problem.full_rows || (problem.allow_empty && !lockstep)) return bound;
  Cost row = kNever;
  for (const ContextSize& size : problem.sizes) row = std::min(row, size.whole_row);
  const LeastTimes added = LeastTimesOf(
      problem, [](const ContextSize& size, uint32_t item) { return size.Added(item); });
  Cost rounded = 0;
  for (uint32_t item = 0; item < problem.items(); ++item) rounded += SequencesOf(problem, item);
  const auto less_rounded = [&](Cost cost) { return cost - std::min(cost, rounded); };
  const uint64_t rows = problem.allow_empty ? filled : slots;
  return std::max(bound, clock.Bound(less_rounded(added.slots + rows * row + slots * fixed),
                                     less_rounded(problem.allow_empty ? fixed : fixed + row),
                                     less_rounded(added.longest + row + fixed)));
}

}  // namespace batchplan
