#include "server/planner/packing/packer.h"

#include "server/planner/packing/best_fit.h"
#include "server/planner/packing/concatenative.h"
#include "server/planner/packing/decreasing.h"
#include "server/planner/packing/first_fit.h"
#include "server/planner/packing/modified_first_fit.h"
#include "server/planner/packing/shuffle.h"

namespace batchplan {

Bins Pack(Packer packer, std::span<const uint32_t> lengths, const BinLimits& limits,
          uint64_t seed) {
  switch (packer) {
    case Packer::kConcatenative:
      return PackConcatenative(lengths, limits);
    case Packer::kFirstFitDecreasing:
      return PackFirstFit(DecreasingOrder(lengths), lengths, limits);
    case Packer::kFirstFitShuffle:
      return PackFirstFit(ShuffledOrder(static_cast<uint32_t>(lengths.size()), seed), lengths,
                          limits);
    case Packer::kModifiedFirstFitDecreasing:
      return PackModifiedFirstFitDecreasing(lengths, limits);
    case Packer::kBestFitDecreasing:
      return PackBestFit(DecreasingOrder(lengths), lengths, limits);
    case Packer::kBalanced:
    case Packer::kKarmarkarKarp:
      break;  // PlanOptions::Validate refuses them by name.
  }
  return Bins();
}

}  // namespace batchplan
