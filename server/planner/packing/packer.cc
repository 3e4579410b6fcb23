#include "server/planner/packing/packer.h"

#include <cstdlib>

#include "server/planner/packing/best_fit_decreasing.h"
#include "server/planner/packing/concatenative.h"
#include "server/planner/packing/first_fit.h"
#include "server/planner/packing/first_fit_decreasing.h"
#include "server/planner/packing/karmarkar_karp_bins.h"
#include "server/planner/packing/modified_first_fit.h"
#include "server/planner/packing/shuffle.h"

namespace batchplan {

Bins Pack(Packer packer, const PackItems& items, const BinLimits& limits, uint64_t seed,
          const Allowance& allowance) {
  switch (packer) {
    case Packer::kConcatenative:
      return PackConcatenative(items, limits);
    case Packer::kFirstFitDecreasing:
      return PackFirstFitDecreasing(items, limits);
    case Packer::kFirstFitShuffle:
      return PackFirstFit(ShuffledOrder(static_cast<uint32_t>(items.size()), seed), items, limits);
    case Packer::kModifiedFirstFitDecreasing:
      return PackModifiedFirstFitDecreasing(items, limits);
    case Packer::kBestFitDecreasing:
      return PackBestFitDecreasing(items, limits);
    case Packer::kKarmarkarKarp:
      return PackKarmarkarKarp(items, limits, 1, allowance);
    case Packer::kBalanced:
      break;
  }
  std::abort();  // PackFewest (fewest_bins/) is no packer of this library.
}

}  // namespace batchplan
