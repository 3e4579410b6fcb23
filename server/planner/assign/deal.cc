#include "server/planner/assign/deal.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "server/planner/assign/conflicts.h"
#include "server/planner/assign/packed_fill.h"
#include "server/planner/assign/shares.h"
#include "server/planner/balance/rank_bins.h"
#include "server/planner/cancellation.h"

namespace batchplan {
namespace {

std::vector<uint64_t> BinLoads(const PassInstance& pass, const Items& items, const Bins& bins) {
  const bool tokens = pass.options().balance_on == BalanceOn::kTokens;
  std::vector<uint64_t> loads(bins.size(), 0);
  for (size_t bin = 0; bin < bins.size(); ++bin) {
    for (uint32_t item : bins[bin]) loads[bin] += tokens ? items.lengths[item] : items.costs[item];
  }
  return loads;
}

}  // namespace

MiniBatchPlacement PlacementOf(const PassInstance& pass, const Items& items, const Bins& bins,
                               std::span<const uint32_t> bin_at) {
  const bool padded = pass.options().layout == Layout::kPadded;
  const size_t slots = bin_at.size() / pass.ranks();
  MiniBatchPlacement result;
  Placement& placement = result.passes.emplace_back();
  placement.slots = static_cast<uint32_t>(slots);
  placement.microbatches.Reserve(bin_at.size(), items.sequences.all().size());
  placement.widths.reserve(bin_at.size());
  std::vector<uint32_t> rank_of(items.size());
  for (size_t m = 0; m < bin_at.size(); ++m) {
    uint32_t width = 0;
    if (bin_at[m] < bins.size()) {
      for (uint32_t item : bins[bin_at[m]]) {
        const uint32_t length = items.lengths[item];
        width = padded ? std::max(width, length) : width + length;
        placement.microbatches.Push(items.sequences[item]);
        rank_of[item] = static_cast<uint32_t>(m / slots);
      }
    }
    placement.microbatches.Close();
    placement.widths.push_back(width);
  }
  result.shares = SharesOf(items.sequences, rank_of, pass.ranks());
  return result;
}

absl::StatusOr<MiniBatchPlacement> PackAndDeal(const PassInstance& pass,
                                               std::span<const SequenceIndex> mini_batch,
                                               uint64_t seed, absl::string_view where,
                                               const Allowance& allowance) {
  const uint32_t ranks = pass.ranks();
  const Items items = pass.ItemsOf(mini_batch);
  const Bins draft = [&] {
    const Allowance::Part part(allowance, 2);
    return DraftPacked(pass, items, seed, PackingWork::kAsAsked, allowance);
  }();
  const uint64_t wanted = pass.counts().RoundUp((draft.size() + ranks - 1) / ranks);
  const uint64_t available = items.size() / ranks;
  uint64_t slots = wanted <= available ? wanted : pass.counts().RoundDown(available);
  std::optional<Bins> bins;
  if (slots > 0)
    bins = SettlePacked(pass, items, draft, slots * ranks, ranks, PackingWork::kAsAsked, allowance);
  if (absl::Status status = CheckStop(allowance); !status.ok()) return status;
  if (!bins) {
    if (!pass.allow_empty()) return TooFewItems(pass, items.size(), wanted, where);
    if (wanted > kMaxEmptyMicrobatches / ranks) return TooManyEmpty(pass, wanted, where);
    slots = wanted;
    const size_t filled = std::min<size_t>(slots * ranks, items.size());
    bins = SettlePacked(pass, items, draft, filled, ranks, PackingWork::kAsAsked, allowance);
  }

  return PlacementOf(pass, items, *bins, DealBins(BinLoads(pass, items, *bins), ranks, slots));
}

}  // namespace batchplan
