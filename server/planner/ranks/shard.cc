#include "server/planner/ranks/shard.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <numeric>
#include <optional>
#include <queue>
#include <set>
#include <tuple>
#include <utility>

#include "server/planner/balance/even_parts.h"
#include "server/planner/balance/exchange_search.h"
#include "server/planner/balance/longest_first.h"
#include "server/planner/packing/even_counts.h"
#include "server/planner/packing/fewest_bins.h"
#include "server/planner/packing/karmarkar_karp.h"
#include "server/planner/packing/orders.h"
#include "server/planner/ranks/conflicts.h"
#include "server/planner/request/cancellation.h"

namespace batchplan {
namespace {

// The offsets of greedy runs of at most `limit`, each also leaving one load for every run after it;
// the last run has the rest.
std::vector<size_t> GreedyRuns(std::span<const uint64_t> loads, size_t runs, uint64_t limit) {
  std::vector<size_t> offsets = {0};
  size_t at = 0;
  for (size_t run = 0; run + 1 < runs; ++run) {
    const size_t last = loads.size() - (runs - run - 1);
    uint64_t sum = loads[at++];
    while (at < last && sum + loads[at] <= limit) sum += loads[at++];
    offsets.push_back(at);
  }
  offsets.push_back(loads.size());
  return offsets;
}

using Lightest = std::set<std::pair<uint64_t, uint32_t>>;  // (load, part)

// Looks at parts without room: each is one step along a tree.
constexpr uint64_t kMaxLooks = 1'000'000;
constexpr uint64_t kTicksALook = 20;
constexpr uint64_t kLeastLooksEach = 16;
// Up to this product of units and their different counts, a division into given counts is also
// evened out.
constexpr uint64_t kMostToEvenOut = 20'000'000;

// Each unit to the lightest part with room for it; nothing if there is none, or if too many parts
// without room would be looked at. The first parts have one more.
std::optional<std::vector<uint32_t>> LightestWithRoom(std::span<const uint64_t> loads,
                                                      std::span<const uint32_t> counts,
                                                      uint32_t parts, const EvenCounts& even,
                                                      const Allowance& allowance) {
  SearchSteps search(allowance, kMaxLooks + kLeastLooksEach * loads.size(), kTicksALook,
                     kLeastLooksEach * loads.size());
  Lightest lightest;
  std::vector<uint64_t> room(parts, even.least);
  for (size_t part = 0; part < even.larger; ++part) ++room[part];
  for (uint32_t part = 0; part < parts; ++part) {
    if (room[part] > 0) lightest.emplace(0, part);
  }
  std::vector<uint32_t> part_of(loads.size());
  for (uint32_t unit : DescendingOrder(loads)) {
    auto found = lightest.begin();
    for (; found != lightest.end() && room[found->second] < counts[unit]; ++found) {
      if (search.left == 0) return std::nullopt;
      --search.left;
    }
    if (found == lightest.end() || allowance.stop_requested()) return std::nullopt;
    const auto [load, part] = *found;
    lightest.erase(found);
    part_of[unit] = part;
    room[part] -= counts[unit];
    if (room[part] > 0) lightest.emplace(load + loads[unit], part);
  }
  return part_of;
}

// Units by part, whose sequences add up to the part's count. If some parts have one more, an extra
// item stands for each part; its length leaves the right room for units.
std::optional<Bins> PackCounts(std::span<const uint32_t> counts, uint32_t parts,
                               const EvenCounts& even, const Allowance& allowance) {
  // With searches, whatever the effort: without a division the request fails.
  if (even.larger == 0) {
    return PackInto({.lengths = counts}, {.capacity = static_cast<uint32_t>(even.least)}, parts,
                    Effort::kDefault, allowance);
  }
  // No two extra items fit into one bin.
  const auto capacity = static_cast<uint32_t>(2 * even.most() + 1);
  std::vector<uint32_t> lengths(counts.begin(), counts.end());
  for (uint64_t part = 0; part < parts; ++part) {
    lengths.push_back(capacity - static_cast<uint32_t>(even.least + (part < even.larger ? 1 : 0)));
  }
  const std::optional<Bins> packed =
      PackInto({.lengths = lengths}, {.capacity = capacity}, parts, Effort::kDefault, allowance);
  if (!packed) return std::nullopt;
  Bins bins;
  std::vector<uint32_t> units;
  for (size_t bin = 0; bin < parts; ++bin) {
    units.clear();
    if (bin < packed->size()) {
      for (const uint32_t item : (*packed)[bin]) {
        if (item < counts.size()) units.push_back(item);
      }
    }
    bins.Add(units);
  }
  return bins;
}

// The part, 0 .. parts - 1, of each unit, such that all parts have the same total of `counts`,
// within one if parts do not divide it, and similar sums of `loads`. The heaviest unit comes first,
// to the lightest part with room for it. If that gets stuck or needs too many looks, packing
// decides first how many units of each count a part has. Nothing if no such division is found
// before the allowance ends: whether there is one is a bin packing problem, solved exactly for some
// dozen units. O(n log n) if all counts are equal.
std::optional<std::vector<uint32_t>> PartsOfEqualCount(std::span<const uint64_t> loads,
                                                       std::span<const uint32_t> counts,
                                                       uint32_t parts, const Allowance& allowance) {
  const EvenCounts even(std::accumulate(counts.begin(), counts.end(), uint64_t{0}), parts);
  if (auto part_of = LightestWithRoom(loads, counts, parts, even, allowance)) return part_of;
  if (counts.empty() || *std::max_element(counts.begin(), counts.end()) > even.most()) {
    return std::nullopt;
  }
  const std::optional<Bins> pattern = PackCounts(counts, parts, even, allowance);
  if (!pattern) return std::nullopt;
  // By count of a unit and by part: how many such units the part still needs.
  std::map<uint32_t, std::vector<uint32_t>> wanted;
  for (uint32_t part = 0; part < parts; ++part) {
    for (uint32_t unit : (*pattern)[part]) {
      std::vector<uint32_t>& left = wanted[counts[unit]];
      left.resize(parts, 0);
      ++left[part];
    }
  }
  std::map<uint32_t, Lightest> takers;
  for (const auto& [count, left] : wanted) {
    for (uint32_t part = 0; part < parts; ++part) {
      if (left[part] > 0) takers[count].emplace(0, part);
    }
  }
  const bool even_out = loads.size() * takers.size() <= kMostToEvenOut;
  std::vector<uint64_t> load_of(parts, 0);
  std::vector<uint32_t> part_of(loads.size());
  for (uint32_t unit : DescendingOrder(loads)) {
    if (allowance.stop_requested()) return std::nullopt;
    Lightest& mine = takers[counts[unit]];
    const uint32_t part = mine.begin()->second;
    part_of[unit] = part;
    const bool last = --wanted[counts[unit]][part] == 0;
    if (!even_out) {
      if (last) mine.erase(mine.begin());
      continue;
    }
    for (auto& [count, lightest] : takers) lightest.erase({load_of[part], part});
    load_of[part] += loads[unit];
    for (const auto& [count, left] : wanted) {
      if (left[part] > 0) takers[count].emplace(load_of[part], part);
    }
  }
  return part_of;
}

using RankOf = std::vector<uint32_t>;

constexpr uint64_t kAnyNumber = std::numeric_limits<uint64_t>::max();

// Rank r has units r, r + ranks, ... of the order ascending by true length, of groups by the sum.
absl::StatusOr<RankOf> ShardByStride(const Pass& pass, const Units& units,
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
RankOf ShardContiguously(const Pass& pass, const Units& units) {
  if (units.size() >= pass.ranks()) return RanksOfRuns(CutIntoRuns(units.loads, pass.ranks()));
  RankOf rank_of(units.size());
  std::iota(rank_of.begin(), rank_of.end(), 0u);
  return rank_of;
}

// Up to this product of ranks and ranks with one more, runs are chosen.
constexpr uint64_t kMostRunChoices = uint64_t{1} << 22;

// Runs of equally many sequences, within one if ranks do not divide them, whose heaviest run is
// lightest. Nothing if units cross the ends of all such runs.
std::optional<RankOf> ShardIntoEqualRuns(const Units& units, uint32_t ranks,
                                         const Allowance& allowance) {
  const EvenCounts even(units.total(), ranks);
  // The sum of loads before each sequence that begins a unit, and at the end; kInside where no cut
  // is possible.
  constexpr uint64_t kInside = std::numeric_limits<uint64_t>::max();
  std::vector<uint64_t> before(units.total() + 1, kInside);
  uint64_t load = 0;
  uint64_t taken = 0;
  for (uint32_t unit = 0; unit < units.size(); ++unit) {
    before[taken] = load;
    taken += units.counts[unit];
    load += units.loads[unit];
  }
  before[taken] = load;
  // By the number of runs so far that have one more: the least weight of the heaviest run, and for
  // each run whether it has one more.
  const bool choose = ranks * (even.larger + 1) <= kMostRunChoices;
  std::vector<uint64_t> least(even.larger + 1, kInside);
  least[0] = 0;
  std::vector<std::vector<bool>> is_larger(choose ? ranks : 0);
  for (uint32_t rank = 0; rank < ranks && choose; ++rank) {
    if (even.larger > 0) allowance.Spend(even.larger);
    is_larger[rank].resize(even.larger + 1);
    for (uint64_t larger = std::min<uint64_t>(rank + 1, even.larger) + 1; larger-- > 0;) {
      const uint64_t end = (rank + uint64_t{1}) * even.least + larger;
      uint64_t best = kInside;
      for (const uint64_t more : {uint64_t{0}, uint64_t{1}}) {
        if (more > larger || before[end] == kInside) continue;
        const uint64_t begin = end - even.least - more;
        if (least[larger - more] == kInside || before[begin] == kInside) continue;
        const uint64_t heaviest = std::max(least[larger - more], before[end] - before[begin]);
        if (heaviest >= best) continue;
        best = heaviest;
        is_larger[rank][larger] = more == 1;
      }
      least[larger] = best;
    }
  }
  if (choose && least[even.larger] == kInside) return std::nullopt;
  std::vector<uint64_t> ends(ranks);
  uint64_t larger = even.larger;
  for (uint32_t rank = ranks; rank-- > 0;) {
    ends[rank] = (rank + uint64_t{1}) * even.least + larger;
    const bool one_more = choose ? is_larger[rank][larger] : larger > rank * even.larger / ranks;
    if (one_more) --larger;
    if (before[ends[rank]] == kInside) return std::nullopt;
  }
  RankOf rank_of;
  rank_of.reserve(units.size());
  taken = 0;
  uint32_t rank = 0;
  for (const uint32_t count : units.counts) {
    while (taken >= ends[rank]) ++rank;
    rank_of.push_back(rank);
    taken += count;
  }
  return rank_of;
}

absl::StatusOr<RankOf> ShardEqually(const Pass& pass, const Units& units,
                                    const SearchContext& context) {
  const Allowance& allowance = context.allowance;
  const uint32_t ranks = pass.ranks();
  if (units.total() % ranks != 0 && pass.options().sequence_counts == EqualCounts::kExact) {
    return SequencesDontDivide(pass, units.total(), context.where);
  }
  const EvenCounts even(units.total(), ranks);
  std::optional<RankOf> rank_of;
  if (pass.options().sharding == Sharding::kContiguous) {
    rank_of = ShardIntoEqualRuns(units, ranks, allowance);
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
    rank_of =
        LongestFirst(units.loads, ranks, even.most(), even.larger > 0 ? even.least : 0, allowance);
  }
  if (absl::Status status = CheckStop(allowance); !status.ok()) return status;
  if (!rank_of) return GroupsDontDivide(pass, units.size(), units.total(), context.where);
  return *std::move(rank_of);
}

// The units that every rank needs for its fewest micro-batches, if there are enough.
uint32_t LeastUnits(const Pass& pass, const Units& units) {
  return static_cast<uint32_t>(
      std::min<uint64_t>(pass.counts().RoundUp(1), units.size() / pass.ranks()));
}

bool HasEqualCounts(const Units& units, const RankOf& rank_of, uint32_t ranks, EqualCounts asked) {
  std::vector<uint64_t> sequences(ranks, 0);
  for (size_t unit = 0; unit < rank_of.size(); ++unit) {
    sequences[rank_of[unit]] += units.counts[unit];
  }
  const EvenCounts even(units.total(), ranks);
  if (asked == EqualCounts::kExact && even.larger > 0) return false;
  return std::ranges::all_of(sequences, [&](uint64_t count) { return even.Allow(count); });
}

}  // namespace

absl::StatusOr<std::vector<uint32_t>> ShardUnits(const Pass& first_pass, const Units& units,
                                                 const SearchContext& context) {
  const PassOptions& options = first_pass.options();
  if (options.sharding == Sharding::kStrideSorted) {
    absl::StatusOr<RankOf> rank_of = ShardByStride(first_pass, units, context.where);
    if (rank_of.ok() && options.keeps_counts() &&
        !HasEqualCounts(units, *rank_of, first_pass.ranks(), options.sequence_counts)) {
      return GroupsDontDivide(first_pass, units.size(), units.total(), context.where);
    }
    return rank_of;
  }
  if (options.keeps_counts()) return ShardEqually(first_pass, units, context);
  switch (options.sharding) {
    case Sharding::kContiguous:
      return ShardContiguously(first_pass, units);
    case Sharding::kKarmarkarKarp:
      return KarmarkarKarp(units.loads, first_pass.ranks(), context.allowance);
    case Sharding::kBalanced:
      return EvenParts(units.loads, first_pass.ranks(),
                       {.least_each = LeastUnits(first_pass, units),
                        .effort = first_pass.effort(),
                        .allowance = context.allowance});
    default:
      return LongestFirst(units.loads, first_pass.ranks(), kAnyNumber, 0, context.allowance);
  }
}

std::vector<uint32_t> ShardEvenly(const Pass& first_pass, const Units& units) {
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

std::vector<size_t> CutIntoRuns(std::span<const uint64_t> loads, size_t runs) {
  uint64_t low = *std::max_element(loads.begin(), loads.end());
  uint64_t high = std::accumulate(loads.begin(), loads.end(), uint64_t{0});
  while (low < high) {
    const uint64_t limit = low + (high - low) / 2;
    const std::vector<size_t> offsets = GreedyRuns(loads, runs, limit);
    const uint64_t rest = std::accumulate(loads.begin() + static_cast<ptrdiff_t>(offsets[runs - 1]),
                                          loads.end(), uint64_t{0});
    if (rest <= limit) {
      high = limit;
    } else {
      low = limit + 1;
    }
  }
  return GreedyRuns(loads, runs, low);
}

}  // namespace batchplan
