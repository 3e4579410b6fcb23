#include "server/planner/assign/place.h"

#include <utility>
#include <vector>

#include "server/planner/assign/fill.h"
#include "server/planner/assign/shard.h"
#include "server/planner/assign/shares.h"
#include "server/planner/cancellation.h"

namespace batchplan {

bool CanDeal(const PassInstance& pass) {
  return pass.options().layout == Layout::kPacked && !pass.options().equal_sequence_counts &&
         (!pass.groups_keep_rank() || pass.groups_keep_microbatch());
}

bool Deals(const PassInstance& pass) {
  return pass.options().sharding == Sharding::kDealBins && CanDeal(pass);
}

absl::StatusOr<MiniBatchPlacement> Place(const PassInstance& pass,
                                         std::span<const SequenceIndex> mini_batch, uint64_t seed,
                                         absl::string_view where, const Allowance& allowance) {
  if (absl::Status status = CheckStop(allowance); !status.ok()) return status;
  if (Deals(pass)) return PackAndDeal(pass, mini_batch, seed, where, allowance);
  const Units units = pass.UnitsOf(mini_batch);
  const absl::StatusOr<std::vector<uint32_t>> rank_of = ShardUnits(pass, units, where, allowance);
  if (!rank_of.ok()) return rank_of.status();
  if (absl::Status status = CheckStop(allowance); !status.ok()) return status;
  SequenceLists shares = SharesOf(units.sequences, *rank_of, pass.ranks());
  absl::StatusOr<Placement> filled =
      FillRanks(pass, shares, seed, where, PackingWork::kAsAsked, allowance);
  if (!filled.ok()) return filled.status();
  MiniBatchPlacement placed{.shares = std::move(shares), .passes = {}};
  placed.passes.push_back(*std::move(filled));
  return placed;
}

}  // namespace batchplan
