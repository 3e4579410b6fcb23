#include "server/planner/context/context_time.h"

#include <algorithm>
#include <limits>
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

// From this time on an item may have a size that saves this much rank-time.
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

}  // namespace

Cost ContextGroupCost(const ContextProblem& problem, const ContextGroup& group) {
  Cost cost = problem.per_microbatch;
  for (const uint32_t item : group.items) cost += problem.sizes[group.size].costs[item];
  return cost;
}

Cost ContextTime(const ContextProblem& problem, const ContextSlots& slots,
                 const Allowance& allowance) {
  return problem.clock().Of(TimedContextSlots(problem, slots), allowance).time;
}

uint64_t FewestContextSlots(const ContextProblem& problem) {
  // The part of a slot's room that an item fills, in units of which a rank has 2^30.
  constexpr uint64_t kWhole = uint64_t{1} << 30;
  absl::uint128 taken = 0;
  uint64_t sequences = 0;
  for (uint32_t item = 0; item < problem.items(); ++item) {
    uint64_t least = kWhole * problem.pool;
    for (const ContextSize& size : problem.sizes) {
      if (!MayTake(problem, size, item)) continue;
      least = std::min(least, PartOf(kWhole, size.ranks, size.tokens[item], size.capacity));
    }
    taken += least;
    sequences += SequencesOf(problem, item);
  }
  const absl::uint128 slot = absl::uint128(kWhole) * problem.pool;
  uint64_t fewest = absl::Uint128Low64((taken + slot - 1) / slot);
  if (problem.max_sequences > 0) {
    const uint64_t groups = problem.pool / problem.sizes.front().ranks;
    const uint64_t most = groups * problem.max_sequences;
    fewest = std::max(fewest, (sequences + most - 1) / most);
  }
  return problem.slots.RoundUp(std::max<uint64_t>(fewest, 1));
}

Cost ContextBound(const ContextProblem& problem) {
  // The least rank-time of every item, however much time there is, and the time of its fastest
  // size.
  absl::uint128 work = 0;
  Cost longest = 0;
  std::vector<Cost> cheapest(problem.items(), 0);  // the time of the least rank-time
  for (uint32_t item = 0; item < problem.items(); ++item) {
    absl::uint128 least = 0;
    Cost fastest = kNever;
    for (const ContextSize& size : problem.sizes) {
      if (!MayTake(problem, size, item)) continue;
      const Cost time = size.costs[item];
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
  }
  const auto whole_pool = [&](absl::uint128 rank_time) {
    return absl::Uint128Low64((rank_time + problem.pool - 1) / problem.pool);
  };
  Cost bound = std::max(longest, whole_pool(work));
  // Items that can't be as cheap within the bound have more rank-time. It falls again as time
  // grows.
  std::vector<Fall> falls;
  std::vector<std::pair<Cost, absl::uint128>> options;
  for (uint32_t item = 0; item < problem.items(); ++item) {
    if (cheapest[item] <= bound) continue;
    options.clear();
    for (const ContextSize& size : problem.sizes) {
      if (!MayTake(problem, size, item)) continue;
      options.emplace_back(size.costs[item], absl::uint128(size.costs[item]) * size.ranks);
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
  // Between two times at which the work falls it is constant, so that the least T is the work over
  // the pool, or the later of the two.
  for (size_t next = 0;;) {
    while (next < falls.size() && falls[next].time <= bound) work -= falls[next++].saved;
    const Cost enough = whole_pool(work);
    if (enough <= bound) break;
    bound = next == falls.size() ? enough : std::min(enough, falls[next].time);
  }
  const uint64_t slots = FewestContextSlots(problem);
  const Cost total = bound + slots * problem.per_microbatch;
  // A slot costs at least its fixed cost, and the costliest slot what the costliest item does.
  return problem.clock().Bound(total, problem.per_microbatch, longest + problem.per_microbatch);
}

}  // namespace batchplan
