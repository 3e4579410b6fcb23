#include "server/planner/rows/row_placement.h"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "server/planner/balance/rank_bins.h"
#include "server/planner/pass/step_time.h"

namespace batchplan {
namespace {

// Bins by place: slots with most empty bins are last and, if ranks may exchange their bins, empty
// bins are on the last ranks.
std::vector<uint32_t> SlotsInOrder(const RowSearch& search) {
  const RowTerms& terms = search.terms();
  const std::vector<Row>& bins = search.bins();
  std::vector<std::pair<uint32_t, uint32_t>> slots;  // empty bins, slot
  for (uint32_t slot = 0; slot < terms.slots; ++slot) {
    uint32_t empty = 0;
    for (uint32_t rank = 0; rank < terms.ranks; ++rank) {
      empty += bins[rank * terms.slots + slot].items.empty() ? 1 : 0;
    }
    slots.emplace_back(empty, slot);
  }
  std::ranges::sort(slots);
  std::vector<uint32_t> bin_at(bins.size());
  const bool keeps = terms.keeps_ranks || terms.keeps_counts;
  for (uint32_t slot = 0; slot < terms.slots; ++slot) {
    for (uint32_t rank = 0; keeps && rank < terms.ranks; ++rank) {
      bin_at[rank * terms.slots + slot] = rank * terms.slots + slots[slot].second;
    }
    if (keeps) continue;
    uint32_t next = 0;
    for (const bool is_empty : {false, true}) {
      for (uint32_t rank = 0; rank < terms.ranks; ++rank) {
        const uint32_t bin = rank * terms.slots + slots[slot].second;
        if (bins[bin].items.empty() == is_empty) bin_at[next++ * terms.slots + slot] = bin;
      }
    }
  }
  return bin_at;
}

}  // namespace

Placement PlacementOf(const Pass& pass, const MiniBatchTree& tree, const RowItems& items,
                      const RowSearch& search) {
  const RowTerms& terms = search.terms();
  const std::vector<Row>& bins = search.bins();
  std::vector<uint32_t> bin_at(bins.size());
  std::iota(bin_at.begin(), bin_at.end(), 0u);
  if (terms.fixed_slots) bin_at = SlotsInOrder(search);
  const bool deals = !terms.fixed_slots && terms.synchronization == Synchronization::kLockstep &&
                     !terms.keeps_ranks && !terms.keeps_counts;
  if (deals) {
    std::vector<uint64_t> loads;
    loads.reserve(bins.size());
    for (const Row& bin : bins) {
      loads.push_back(static_cast<uint64_t>(pass.cost().FromUnits(bin.cost)));
    }
    bin_at = DealBins(loads, terms.ranks, terms.slots);
  }
  Placement placement;
  placement.slots = terms.slots;
  placement.whole_slots = terms.fixed_slots;
  placement.widths.assign(bins.size(), 0);
  placement.microbatches.Reserve(bins.size(), tree.size());
  for (uint32_t rank = 0; rank < terms.ranks; ++rank) {
    const auto own = std::span(bin_at).subspan(size_t{rank} * terms.slots, terms.slots);
    // A rank's empty micro-batches are its last.
    std::stable_partition(own.begin(), own.end(),
                          [&](uint32_t bin) { return !bins[bin].items.empty(); });
    for (const uint32_t bin : own) {
      for (const uint32_t item : bins[bin].items) {
        for (uint32_t i = 0; i < items.count(item); ++i) {
          placement.microbatches.Push(tree[items.first(item) + i]);
        }
      }
      placement.microbatches.Close();
    }
  }
  LayRows(pass, placement);
  if (pass.prefixes() == nullptr) {
    for (size_t m = 0; m < bins.size(); ++m) {
      placement.widths[m] = pass.RowOf(placement.microbatches[m]);
    }
  }
  return placement;
}

}  // namespace batchplan
