#include "server/planner/ranks/share_balancer.h"

#include <algorithm>
#include <cstddef>
#include <limits>

#include "server/planner/balance/lockstep.h"
#include "server/planner/balance/step_time_bound.h"
#include "server/planner/packing/orders.h"
#include "server/planner/ranks/solve_pipeline.h"

namespace batchplan {

ShareBalancer::ShareBalancer(const Pass& pass, std::span<const Items* const> ranks,
                             const Allowance& allowance)
    : pass_(pass), offsets_{0} {
  std::vector<uint32_t> rank_of;
  for (uint32_t rank = 0; rank < ranks.size(); ++rank) {
    const Items& own = *ranks[rank];
    const Objective objective = pass.ObjectiveOf(own);
    lengths_.insert(lengths_.end(), own.lengths.begin(), own.lengths.end());
    counts_.insert(counts_.end(), own.counts.begin(), own.counts.end());
    loads_.insert(loads_.end(), objective.loads.begin(), objective.loads.end());
    rank_of.resize(lengths_.size(), rank);
    offsets_.push_back(static_cast<uint32_t>(lengths_.size()));
    per_microbatch_ = objective.per_microbatch;
    is_cost_ = objective.is_cost;
  }
  const PackItems items{.lengths = lengths_, .counts = counts_, .loads = loads_};
  const auto count = static_cast<uint32_t>(ranks.size());
  bound_ = pass.given_ranks().empty()
               ? LockstepBound(items, pass.bin_limits(), count, allowance)
               : LockstepBoundOfRanks(items, pass.bin_limits(), count, rank_of, allowance);
}

std::optional<BalancedShares> ShareBalancer::Balance(uint32_t slots,
                                                     const Allowance& allowance) const {
  if (pass_.pipeline() != nullptr) return BalancePipelines(slots, allowance);
  // The items of ranks that fill all slots, renumbered.
  std::vector<uint32_t> lengths;
  std::vector<uint32_t> counts;
  std::vector<uint64_t> loads;
  std::vector<uint32_t> rank_of;
  const size_t all = offsets_.size() - 1;
  std::vector<uint32_t> full;
  for (uint32_t rank = 0; rank < all; ++rank) {
    const uint32_t begin = offsets_[rank];
    const uint32_t end = offsets_[rank + 1];
    if (end - begin < slots) continue;
    lengths.insert(lengths.end(), lengths_.begin() + begin, lengths_.begin() + end);
    if (!counts_.empty()) {
      counts.insert(counts.end(), counts_.begin() + begin, counts_.begin() + end);
    }
    loads.insert(loads.end(), loads_.begin() + begin, loads_.begin() + end);
    rank_of.resize(lengths.size(), static_cast<uint32_t>(full.size()));
    full.push_back(rank);
  }
  std::optional<BalancedBins> balanced = BalancedBins();
  if (!full.empty()) {
    balanced = BalanceLockstep({.items = {.lengths = lengths, .counts = counts, .loads = loads},
                                .limits = pass_.bin_limits(),
                                .ranks = static_cast<uint32_t>(full.size()),
                                .slots = slots,
                                .rank_of = rank_of,
                                .enough = bound_,
                                .effort = pass_.effort(),
                                .allowance = allowance});
  }
  if (!balanced) return std::nullopt;
  BalancedShares shares;
  std::vector<Bins>& bins = shares.ranks;
  bins.resize(all);
  uint32_t offset = 0;
  size_t next = 0;
  std::vector<uint32_t> bin;
  for (uint32_t rank = 0; rank < all; ++rank) {
    const uint32_t items = offsets_[rank + 1] - offsets_[rank];
    if (next < full.size() && full[next] == rank) {
      for (uint32_t slot = 0; slot < slots; ++slot) {
        bin.clear();
        for (uint32_t item : balanced->bins[next * slots + slot]) bin.push_back(item - offset);
        bins[rank].Add(bin);
      }
      offset += items;
      ++next;
      continue;
    }
    const auto own = std::span(loads_).subspan(offsets_[rank], items);
    for (const uint32_t item : DescendingOrder(own)) bins[rank].Add({&item, 1});
  }
  return shares;
}

std::optional<BalancedShares> ShareBalancer::BalancePipelines(uint32_t slots,
                                                              const Allowance& allowance) const {
  std::vector<uint32_t> rank_of;
  uint32_t most = std::numeric_limits<uint32_t>::max();
  const size_t ranks = offsets_.size() - 1;
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    rank_of.resize(offsets_[rank + 1], rank);
    most = std::min(most, offsets_[rank + 1] - offsets_[rank]);
  }
  if (most < slots) return std::nullopt;
  BalancedShares balanced;
  // The solver does not see the padding of rows.
  const bool is_step_time = is_cost_ && pass_.options().rows == RowPadding::kNone;
  const auto note = [&](const PipelineBins& solved) {
    if (!is_step_time) return;
    NoteSlots(solved.bins.size() / ranks, pass_.cost().ToUnits(solved.makespan), balanced.tried);
  };
  const std::optional<Bins> found =
      SolveOnPipelines(pass_, {.lengths = lengths_, .counts = counts_, .loads = loads_},
                       static_cast<double>(per_microbatch_), rank_of, slots, most, note, allowance);
  if (!found) return std::nullopt;
  std::vector<Bins>& bins = balanced.ranks;
  bins.resize(ranks);
  std::vector<uint32_t> own;
  const size_t each = found->size() / ranks;
  for (size_t bin = 0; bin < found->size(); ++bin) {
    own.clear();
    for (const uint32_t item : (*found)[bin]) own.push_back(item - offsets_[bin / each]);
    bins[bin / each].Add(own);
  }
  return balanced;
}

}  // namespace batchplan
