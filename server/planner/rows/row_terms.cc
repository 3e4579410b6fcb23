#include "server/planner/rows/row_terms.h"

#include <algorithm>
#include <vector>

#include "server/planner/pass/slot_loads.h"

namespace batchplan {

bool DealsWithin(const RowItems& items, const RowTerms& terms, std::span<const Row> bins,
                 uint32_t slot, std::span<const uint32_t> added) {
  if (terms.dealt_limits_of == nullptr) return true;
  const Pass& pass = *terms.dealt_limits_of;
  std::vector<SequenceIndex> sequences;
  const auto add = [&](uint32_t item) {
    for (uint32_t i = 0; i < items.count(item); ++i) {
      sequences.push_back(items.tree()[items.first(item) + i]);
    }
  };
  for (uint32_t rank = 0; rank < terms.ranks; ++rank) {
    std::ranges::for_each(bins[rank * terms.slots + slot].items, add);
  }
  std::ranges::for_each(added, add);
  return std::ranges::all_of(pass.loads().limits(), [&](const LoadBudget& limit) {
    if (!limit.dealt) return true;
    double sum = 0;
    for (const SequenceIndex sequence : sequences) {
      sum += pass.loads().given().Of(limit.load, sequence);
    }
    if (sum > limit.most * terms.ranks) return false;
    const DealtItems dealt = DealItems(pass.loads().given(), limit.load, sequences, terms.ranks);
    return std::ranges::max(dealt.sums) <= limit.most;
  });
}

}  // namespace batchplan
