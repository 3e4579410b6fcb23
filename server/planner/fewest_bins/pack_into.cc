#include "server/planner/fewest_bins/pack_into.h"

#include <utility>

#include "server/planner/fewest_bins/fewest_bins.h"
#include "server/planner/packing/decreasing.h"
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

std::optional<Bins> PackInto(const PackItems& items, const BinLimits& limits, size_t bins,
                             Effort effort, const std::stop_token& stop) {
  const bool is_fast = effort == Effort::kFast;
  FewestBins fewest = is_fast ? PackFewest(items, limits, bins, effort, stop)
                              : PackFewBriefly(items, limits, bins, stop);
  if (fewest.bins.size() <= bins) return std::move(fewest.bins);
  if (is_fast || fewest.bound > bins || stop.stop_requested()) return std::nullopt;
  if (items.size() > kMaxSearchedItems) return std::nullopt;
  return SearchBins(DecreasingOrder(items.lengths), bins, Room(items, limits), kMaxSearchSteps);
}

}  // namespace batchplan
