#include "server/planner/groups/context_items.h"

#include <algorithm>

#include "server/planner/packing/orders.h"

namespace batchplan {
namespace {

// Up to this many positions are near in memory, and searched without branches.
constexpr size_t kFewPositions = 1024;

// The first of descending numbers at or after `from` that is at most `most`. Without branches that
// depend on the numbers.
template <typename Number>
size_t FirstAtMost(std::span<const Number> numbers, uint64_t most, size_t from) {
  for (size_t count = numbers.size() - from; count > 0;) {
    const size_t half = (count + 1) / 2;
    from += numbers[from + half - 1] > most ? half : 0;
    count -= half;
  }
  return from;
}

}  // namespace

ContextItems::ContextItems(const ContextProblem& problem, const Allowance& allowance)
    : problem_(&problem),
      item_(DescendingOrder(problem.sizes.front().costs)),
      work_(problem.items()),
      max_sequences_(problem.max_sequences > 0 ? problem.max_sequences
                                               : std::numeric_limits<uint64_t>::max()) {
  for (const ContextSize& size : problem.sizes) {
    if (allowance.stop_requested()) all_fit_ = false;
    if (!all_fit_) return;
    std::vector<Cost>& costs = costs_.emplace_back(item_.size());
    std::vector<uint32_t>& tokens = tokens_.emplace_back(item_.size());
    for (size_t i = 0; i < item_.size(); ++i) {
      costs[i] = size.Added(item_[i]);
      tokens[i] = size.tokens[item_[i]];
    }
    descend_ = descend_ && std::is_sorted(costs.rbegin(), costs.rend()) &&
               std::is_sorted(tokens.rbegin(), tokens.rend());
  }
  if (!problem.counts.empty()) {
    for (const uint32_t item : item_) count_.push_back(problem.counts[item]);
  }
  std::vector<absl::uint128> works(item_.size(), 0);
  cheapest_first_.assign(item_.size(), true);
  absl::uint128 total = 0;
  for (size_t i = 0; i < item_.size(); ++i) {
    if (i % kItemsPerLook == 0 && allowance.stop_requested()) all_fit_ = false;
    if (!all_fit_) return;
    bool fits = false;
    absl::uint128 before = 0;
    for (uint32_t size = 0; size < sizes(); ++size) {
      if (!MayTake(size, i)) continue;
      const absl::uint128 rank_time = RankTimeOf(size, i);
      if (!fits || rank_time < works[i]) works[i] = rank_time;
      if (rank_time < before) cheapest_first_[i] = false;
      before = rank_time;
      fits = true;
    }
    all_fit_ = all_fit_ && fits;
    total += works[i];
  }
  while ((total >> shift_) >= (absl::uint128(1) << 60)) ++shift_;
  for (size_t i = 0; i < item_.size(); ++i) work_[i] = absl::Uint128Low64(works[i] >> shift_);
}

uint64_t ContextItems::RankTime(uint64_t ranks, Cost time) const {
  const absl::uint128 kMost = absl::uint128(1) << 62;
  return absl::Uint128Low64(std::min(absl::uint128(time) * ranks >> shift_, kMost));
}

uint32_t ContextItems::SizeWithin(size_t position, Cost time) const {
  uint32_t best = sizes();
  absl::uint128 least = 0;
  for (uint32_t size = 0; size < sizes(); ++size) {
    if (Alone(size, position) > time || !MayTake(size, position)) continue;
    if (cheapest_first_[position]) return size;
    const absl::uint128 rank_time = RankTimeOf(size, position);
    if (best < sizes() && rank_time >= least) continue;
    best = size;
    least = rank_time;
  }
  return best;
}

size_t ContextItems::FirstWithin(uint32_t size, Cost time, uint64_t tokens, size_t from) const {
  const std::span<const Cost> costs = costs_[size];
  if (!descend_) {
    const auto first =
        std::partition_point(costs.begin(), costs.end(), [&](Cost cost) { return cost > time; });
    return std::max<size_t>(from, first - costs.begin());
  }
  const std::span<const uint32_t> lengths = tokens_[size];
  const auto is_beyond = [&](size_t position) {
    return costs[position] > time || lengths[position] > tokens;
  };
  if (from >= costs.size() || !is_beyond(from)) return from;
  // Mostly close by: in steps that double, and then halve.
  size_t beyond = from;
  size_t step = 1;
  while (beyond + step < costs.size() && is_beyond(beyond + step)) {
    beyond += step;
    step *= 2;
  }
  size_t end = std::min(beyond + step, costs.size());
  while (end - beyond > kFewPositions) {
    const size_t middle = beyond + (end - beyond) / 2;
    (is_beyond(middle) ? beyond : end) = middle;
  }
  const size_t within = FirstAtMost(costs.first(end), time, beyond);
  if (within == end || lengths[within] <= tokens) return within;
  return FirstAtMost(lengths.first(end), tokens, within);
}

}  // namespace batchplan
