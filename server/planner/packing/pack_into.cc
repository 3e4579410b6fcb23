#include "server/planner/packing/pack_into.h"

#include "server/planner/packing/decreasing.h"
#include "server/planner/packing/lower_bounds.h"
#include "server/planner/packing/packer.h"
#include "server/planner/packing/search_bins.h"

namespace batchplan {
namespace {

// BinRoom as the search wants it.
class Room {
 public:
  Room(const PackItems& items, const BinLimits& limits) : items_(&items), left_(limits) {}
  bool Holds(uint32_t item) const { return left_.Holds(*items_, item); }
  void Take(uint32_t item) { left_.Take(*items_, item); }
  friend bool operator==(const Room&, const Room&) = default;

 private:
  const PackItems* items_;
  BinRoom left_;
};

}  // namespace

std::optional<Bins> PackInto(const PackItems& items, const BinLimits& limits, size_t bins) {
  if (LowerBoundBins(items, limits) > bins) return std::nullopt;
  for (const Packer packer : {Packer::kBestFitDecreasing, Packer::kFirstFitDecreasing,
                              Packer::kModifiedFirstFitDecreasing}) {
    Bins packed = Pack(packer, items, limits, 0);
    if (packed.size() <= bins) return packed;
  }
  if (items.size() > kMaxSearchedItems) return std::nullopt;
  return SearchBins(DecreasingOrder(items.lengths), bins, Room(items, limits), kMaxSearchSteps);
}

}  // namespace batchplan
