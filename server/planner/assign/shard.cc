#include "server/planner/assign/shard.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <numeric>
#include <queue>
#include <tuple>

#include "server/planner/assign/conflicts.h"
#include "server/planner/assign/contiguous.h"
#include "server/planner/assign/equal_counts.h"
#include "server/planner/balance/even_parts.h"
#include "server/planner/balance/exchange_search.h"
#include "server/planner/balance/longest_first.h"
#include "server/planner/cancellation.h"
#include "server/planner/packing/karmarkar_karp.h"
#include "server/planner/packing/orders.h"

namespace batchplan {
namespace {

using RankOf = std::vector<uint32_t>;

constexpr uint64_t kAnyNumber = std::numeric_limits<uint64_t>::max();

// Rank r takes units r, r + ranks, ... of the order ascending by true length, of groups by the sum.
absl::StatusOr<RankOf> ShardByStride(const PassInstance& pass, const Units& units,
                                     absl::string_view where) {
  if (units.size() % pass.ranks() != 0) {
    return UnitsDontDivide(pass, units.size(), where);
  }
  const std::vector<uint64_t> tokens = pass.TrueTokensOf(units.sequences);
  std::vector<uint32_t> order(units.size());
  std::iota(order.begin(), order.end(), 0u);
  std::stable_sort(order.begin(), order.end(),
                   [&](uint32_t a, uint32_t b) { return tokens[a] < tokens[b]; });
  RankOf rank_of(units.size());
  for (uint32_t i = 0; i < order.size(); ++i) rank_of[order[i]] = i % pass.ranks();
  return rank_of;
}

RankOf RanksOfRuns(const std::vector<size_t>& offsets) {
  RankOf rank_of;
  for (uint32_t rank = 0; rank + 1 < offsets.size(); ++rank)
    rank_of.resize(offsets[rank + 1], rank);
  return rank_of;
}

// Runs of the mini-batch's order.
RankOf ShardContiguously(const PassInstance& pass, const Units& units) {
  if (units.size() >= pass.ranks()) return RanksOfRuns(CutIntoRuns(units.loads, pass.ranks()));
  RankOf rank_of(units.size());
  std::iota(rank_of.begin(), rank_of.end(), 0u);
  return rank_of;
}

// Runs of `each` sequences; nothing if a unit crosses their ends.
std::optional<RankOf> ShardIntoEqualRuns(const Units& units, uint64_t each) {
  RankOf rank_of;
  uint64_t taken = 0;
  for (uint32_t count : units.counts) {
    rank_of.push_back(static_cast<uint32_t>(taken / each));
    if (taken / each != (taken + count - 1) / each) return std::nullopt;
    taken += count;
  }
  return rank_of;
}

absl::StatusOr<RankOf> ShardEqually(const PassInstance& pass, const Units& units,
                                    absl::string_view where, const Allowance& allowance) {
  const uint32_t ranks = pass.ranks();
  if (units.total() % ranks != 0) {
    return SequencesDontDivide(pass, units.total(), where);
  }
  const uint64_t each = units.total() / ranks;
  std::optional<RankOf> rank_of;
  if (pass.options().sharding == Sharding::kContiguous) {
    rank_of = ShardIntoEqualRuns(units, each);
  } else if (units.size() != units.total()) {
    rank_of = PartsOfEqualCount(units.loads, units.counts, ranks, allowance);
    if (rank_of && pass.options().sharding == Sharding::kBalanced) {
      std::vector<uint64_t> descending = units.loads;
      std::sort(descending.rbegin(), descending.rend());
      const uint64_t goal = LargestSumBound(descending, ranks);
      rank_of = RefineParts(units.loads, *std::move(rank_of), ranks,
                            {.counts = units.counts, .equal_counts = true}, goal,
                            RefineSteps(units.size(), pass.effort()), allowance);
    }
  } else if (pass.options().sharding == Sharding::kBalanced) {
    rank_of = EvenParts(units.loads, ranks,
                        {.equal_counts = true, .effort = pass.effort(), .allowance = allowance});
  } else if (pass.options().sharding == Sharding::kKarmarkarKarp) {
    rank_of = KarmarkarKarpEqual(units.loads, ranks, allowance);
  } else {
    rank_of = LongestFirst(units.loads, ranks, each, 0, allowance);
  }
  if (absl::Status status = CheckStop(allowance); !status.ok()) return status;
  if (!rank_of) return GroupsDontDivide(pass, units.size(), units.total(), where);
  return *std::move(rank_of);
}

// Units of every rank, so that it comes to its fewest micro-batches, where there are enough.
uint32_t LeastUnits(const PassInstance& pass, const Units& units) {
  return static_cast<uint32_t>(
      std::min<uint64_t>(pass.counts().RoundUp(1), units.size() / pass.ranks()));
}

bool HasEqualCounts(const Units& units, const RankOf& rank_of, uint32_t ranks) {
  std::vector<uint64_t> sequences(ranks, 0);
  for (size_t unit = 0; unit < rank_of.size(); ++unit) {
    sequences[rank_of[unit]] += units.counts[unit];
  }
  return std::adjacent_find(sequences.begin(), sequences.end(), std::not_equal_to<>()) ==
         sequences.end();
}

}  // namespace

absl::StatusOr<std::vector<uint32_t>> ShardUnits(const PassInstance& first_pass, const Units& units,
                                                 absl::string_view where,
                                                 const Allowance& allowance) {
  const PassOptions& options = first_pass.options();
  if (options.sharding == Sharding::kStrideSorted) {
    absl::StatusOr<RankOf> rank_of = ShardByStride(first_pass, units, where);
    if (rank_of.ok() && options.equal_sequence_counts &&
        !HasEqualCounts(units, *rank_of, first_pass.ranks())) {
      return GroupsDontDivide(first_pass, units.size(), units.total(), where);
    }
    return rank_of;
  }
  if (options.equal_sequence_counts) return ShardEqually(first_pass, units, where, allowance);
  switch (options.sharding) {
    case Sharding::kContiguous:
      return ShardContiguously(first_pass, units);
    case Sharding::kKarmarkarKarp:
      return KarmarkarKarp(units.loads, first_pass.ranks(), allowance);
    case Sharding::kBalanced:
      return EvenParts(units.loads, first_pass.ranks(),
                       {.least_each = LeastUnits(first_pass, units),
                        .effort = first_pass.effort(),
                        .allowance = allowance});
    default:
      return LongestFirst(units.loads, first_pass.ranks(), kAnyNumber, 0, allowance);
  }
}

std::vector<uint32_t> ShardEvenly(const PassInstance& first_pass, const Units& units) {
  const uint32_t ranks = first_pass.ranks();
  RankOf rank_of(units.size());
  if (first_pass.options().sharding == Sharding::kContiguous) {
    for (uint64_t unit = 0; unit < units.size(); ++unit) {
      rank_of[unit] = static_cast<uint32_t>(unit * ranks / units.size());
    }
    return rank_of;
  }
  using Entry = std::tuple<uint32_t, uint64_t, uint32_t>;  // units, load, rank
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> poorest;
  for (uint32_t rank = 0; rank < ranks; ++rank) poorest.emplace(0, 0, rank);
  for (uint32_t unit : DescendingOrder(units.loads)) {
    const auto [count, load, rank] = poorest.top();
    poorest.pop();
    rank_of[unit] = rank;
    poorest.emplace(count + 1, load + units.loads[unit], rank);
  }
  return rank_of;
}

}  // namespace batchplan
