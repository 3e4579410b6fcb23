#include "server/planner/assign/deal.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "server/planner/assign/conflicts.h"
#include "server/planner/assign/packed_fill.h"
#include "server/planner/assign/shares.h"
#include "server/planner/partition/descending.h"

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

// Slot s of rank r runs bin bin_at[r * slots + s]; a bin beyond the last is an empty one.
std::vector<uint32_t> Deal(std::vector<uint64_t> loads, uint32_t ranks, size_t slots) {
  std::vector<uint32_t> order = DescendingOrder(loads);
  loads.resize(ranks * slots, 0);
  order.resize(ranks * slots, static_cast<uint32_t>(order.size()));

  std::vector<uint32_t> bin_at(ranks * slots);
  std::vector<std::pair<uint64_t, uint32_t>> lightest(ranks);  // (load so far, rank)
  for (uint32_t rank = 0; rank < ranks; ++rank) lightest[rank] = {0, rank};
  for (size_t slot = 0; slot < slots; ++slot) {
    std::sort(lightest.begin(), lightest.end());
    for (uint32_t i = 0; i < ranks; ++i) {
      const uint32_t bin = order[slot * ranks + i];
      auto& [load, rank] = lightest[i];
      load += loads[bin];
      bin_at[rank * slots + slot] = bin;
    }
  }
  return bin_at;
}

}  // namespace

absl::StatusOr<Dealt> PackAndDeal(const PassInstance& pass,
                                  std::span<const SequenceIndex> mini_batch,
                                  const CountRule& counts, uint64_t seed, absl::string_view where) {
  const uint32_t ranks = pass.ranks();
  const SequenceLists blocks = pass.MicrobatchBlocks(mini_batch);
  const Items items = pass.ItemsOf(blocks);
  const Bins draft = DraftPacked(pass, items, seed);
  const uint64_t wanted = counts.RoundUp((draft.size() + ranks - 1) / ranks);
  const uint64_t available = items.size() / ranks;
  uint64_t slots = wanted <= available ? wanted : counts.RoundDown(available);
  std::optional<Bins> bins;
  if (slots > 0) bins = SettlePacked(pass, items, draft, slots * ranks, ranks);
  if (!bins) {
    if (!pass.allow_empty()) return TooFewItems(pass, items.size(), wanted, where);
    if (wanted > kMaxEmptyMicrobatches / ranks) return TooManyEmpty(pass, wanted, where);
    slots = wanted;
    const size_t filled = std::min<size_t>(slots * ranks, items.size());
    bins = SettlePacked(pass, items, draft, filled, ranks);
  }

  Dealt dealt;
  Assignment& assignment = dealt.assignment;
  assignment.slots = static_cast<uint32_t>(slots);
  assignment.microbatches.Reserve(slots * ranks, mini_batch.size());
  assignment.widths.reserve(slots * ranks);
  std::vector<uint32_t> rank_of(items.size());
  const std::vector<uint32_t> bin_at = Deal(BinLoads(pass, items, *bins), ranks, slots);
  for (size_t m = 0; m < bin_at.size(); ++m) {
    uint32_t width = 0;
    if (bin_at[m] < bins->size()) {
      for (uint32_t item : (*bins)[bin_at[m]]) {
        assignment.microbatches.Push(blocks[item]);
        width += items.lengths[item];
        rank_of[item] = static_cast<uint32_t>(m / slots);
      }
    }
    assignment.microbatches.Close();
    assignment.widths.push_back(width);
  }
  dealt.shares = SharesOf(blocks, rank_of, ranks);
  return dealt;
}

}  // namespace batchplan
