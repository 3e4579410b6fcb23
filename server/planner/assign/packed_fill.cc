#include "server/planner/assign/packed_fill.h"

#include "server/planner/assign/split_bins.h"
#include "server/planner/packing/fewest_bins.h"
#include "server/planner/packing/karmarkar_karp.h"
#include "server/planner/packing/packer.h"

namespace batchplan {

Bins DraftPacked(const PassInstance& pass, const Items& items, uint64_t seed, PackingWork work,
                 const Allowance& allowance) {
  if (pass.options().packer == Packer::kBalanced) {
    const Effort effort = work == PackingWork::kGreedy ? Effort::kFast : pass.effort();
    return PackFewest(items.ForPacking(), pass.bin_limits(), 0, effort, allowance).bins;
  }
  return Pack(pass.options().packer, items.ForPacking(), pass.bin_limits(), seed, allowance);
}

std::optional<Bins> SettlePacked(const PassInstance& pass, const Items& items, const Bins& draft,
                                 size_t count, size_t group, PackingWork work,
                                 const Allowance& allowance) {
  if (draft.size() < count && pass.options().packer == Packer::kKarmarkarKarp) {
    Bins even = PackKarmarkarKarp(items.ForPacking(), pass.bin_limits(), count, allowance);
    if (even.size() == count) return even;
  }
  if (draft.size() <= count) return SplitToCount(draft, count, group, items, pass.bin_limits());
  // With the searches whatever the pass's effort: without a packing the request fails.
  const Effort effort = work == PackingWork::kGreedy ? Effort::kFast : Effort::kDefault;
  const std::optional<Bins> tighter =
      PackInto(items.ForPacking(), pass.bin_limits(), count, effort, allowance);
  if (!tighter) return std::nullopt;
  return SplitToCount(*tighter, count, group, items, pass.bin_limits());
}

}  // namespace batchplan
