#include "server/planner/pass/placement.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace batchplan {

void LayRows(const Pass& pass, Placement& placement) {
  if (pass.prefixes() == nullptr) return;
  SequenceLists rows;
  rows.Reserve(placement.microbatches.size(), placement.microbatches.all().size());
  std::vector<SequenceIndex> row;
  for (size_t m = 0; m < placement.microbatches.size(); ++m) {
    row.assign(placement.microbatches[m].begin(), placement.microbatches[m].end());
    pass.prefixes()->Sort(row);
    placement.widths[m] = pass.RowOf(row);
    rows.Push(row);
    rows.Close();
  }
  placement.microbatches = std::move(rows);
}

SequenceLists SharesOf(const SequenceLists& lists, std::span<const uint32_t> rank_of,
                       uint32_t ranks) {
  std::vector<uint32_t> begin(ranks + 1, 0);
  for (size_t list = 0; list < lists.size(); ++list) ++begin[rank_of[list] + 1];
  std::partial_sum(begin.begin(), begin.end(), begin.begin());
  std::vector<uint32_t> by_rank(lists.size());
  std::vector<uint32_t> next(begin.begin(), begin.end() - 1);
  for (size_t list = 0; list < lists.size(); ++list) {
    by_rank[next[rank_of[list]]++] = static_cast<uint32_t>(list);
  }
  SequenceLists shares;
  shares.Reserve(ranks, lists.all().size());
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    for (uint32_t i = begin[rank]; i < begin[rank + 1]; ++i) shares.Push(lists[by_rank[i]]);
    shares.Close();
  }
  return shares;
}

SequenceLists GivenShares(const Pass& pass, std::span<const SequenceIndex> sequences) {
  std::vector<uint32_t> rank_of;
  rank_of.reserve(sequences.size());
  for (SequenceIndex sequence : sequences) {
    rank_of.push_back(pass.given_ranks()[sequence.value()]);
  }
  return SharesOf(SequenceLists::Singles(sequences), rank_of, pass.ranks());
}

MiniBatchPlacement PlacementOf(const Pass& pass, const Items& items, const Bins& bins,
                               std::span<const uint32_t> bin_at) {
  const bool padded = pass.options().layout == Layout::kPadded;
  const size_t slots = bin_at.size() / pass.ranks();
  MiniBatchPlacement result;
  Placement& placement = result.passes.emplace_back();
  placement.slots = static_cast<uint32_t>(slots);
  placement.microbatches.Reserve(bin_at.size(), items.sequences.all().size());
  placement.widths.reserve(bin_at.size());
  std::vector<uint32_t> rank_of(items.size());
  const std::span<const uint32_t> widths = items.widths();
  for (size_t m = 0; m < bin_at.size(); ++m) {
    uint32_t width = 0;
    if (bin_at[m] < bins.size()) {
      const auto rank = static_cast<uint32_t>(m / slots);
      for (uint32_t item : bins[bin_at[m]]) {
        width = padded ? std::max(width, widths[item]) : width + widths[item];
        placement.microbatches.Push(items.sequences[item]);
        rank_of[item] = rank;
      }
    }
    placement.microbatches.Close();
    placement.widths.push_back(width);
  }
  LayRows(pass, placement);
  result.shares = SharesOf(items.sequences, rank_of, pass.ranks());
  return result;
}

Placement PlacementOfRanks(const Pass& pass, std::span<const Items* const> items,
                           std::span<const Bins* const> bins, size_t slots) {
  const bool padded = pass.options().layout == Layout::kPadded;
  size_t sequences = 0;
  for (const Items* own : items) sequences += own->sequences.all().size();
  Placement placement;
  placement.slots = static_cast<uint32_t>(slots);
  placement.widths.reserve(slots * items.size());
  placement.microbatches.Reserve(slots * items.size(), sequences);
  for (size_t rank = 0; rank < items.size(); ++rank) {
    for (size_t slot = 0; slot < slots; ++slot) {
      uint32_t width = 0;
      if (slot < bins[rank]->size()) {
        for (uint32_t item : (*bins[rank])[slot]) {
          const uint32_t length = items[rank]->widths()[item];
          width = padded ? std::max(width, length) : width + length;
          placement.microbatches.Push(items[rank]->sequences[item]);
        }
      }
      placement.microbatches.Close();
      placement.widths.push_back(width);
    }
  }
  LayRows(pass, placement);
  return placement;
}

}  // namespace batchplan
