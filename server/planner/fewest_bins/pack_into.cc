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
                             Effort effort, const Allowance& allowance) {
  const bool is_fast = effort == Effort::kFast;
  FewestBins fewest = is_fast ? PackFewest(items, limits, bins, effort, allowance)
                              : PackFewBriefly(items, limits, bins, allowance);
  if (fewest.bins.size() <= bins) return std::move(fewest.bins);
  if (is_fast || fewest.bound > bins || allowance.stop_requested()) return std::nullopt;
  if (items.size() > kMaxSearchedItems) return std::nullopt;
  SearchSteps search(allowance, kMaxSearchSteps, kUnitsASearchStep);
  return SearchBins(DecreasingOrder(items.lengths), bins, Room(items, limits), search.left);
}

}  // namespace batchplan
