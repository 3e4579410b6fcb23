#include "server/planner/packing/best_fit.h"

#include <map>
#include <set>
#include <utility>
#include <vector>

namespace batchplan {

namespace {

// The bins that still hold something, by what they have left.
class OpenBins {
 public:
  OpenBins(const PackItems& items, const BinLimits& limits) : items_(items), limits_(limits) {}

  // The fullest bin that holds the item, out of the open ones; a new one if there is none.
  uint32_t Take(uint32_t item) {
    BySequences::iterator best_class = open_.end();
    ByTokens::iterator best;
    for (auto found = open_.lower_bound(Class(items_.count(item))); found != open_.end(); ++found) {
      const auto tightest = found->second.lower_bound({items_.lengths[item], 0});
      if (tightest == found->second.end()) continue;
      if (best_class != open_.end() && *best < *tightest) continue;
      best_class = found;
      best = tightest;
    }
    if (best_class == open_.end()) {
      rooms_.emplace_back(limits_);
      return static_cast<uint32_t>(rooms_.size() - 1);
    }
    const uint32_t bin = best->second;
    best_class->second.erase(best);
    if (best_class->second.empty()) open_.erase(best_class);
    return bin;
  }

  void Put(uint32_t item, uint32_t bin) {
    BinRoom& room = rooms_[bin];
    room.Take(items_, item);
    if (room.tokens == 0 || room.sequences == 0) return;
    open_[Class(room.sequences)].insert({room.tokens, bin});
  }

  uint32_t size() const { return static_cast<uint32_t>(rooms_.size()); }

 private:
  using ByTokens = std::set<std::pair<uint32_t, uint32_t>>;  // (tokens left, bin)
  using BySequences = std::map<uint32_t, ByTokens>;

  // Where every item is one sequence, whatever number is left is as good as another.
  uint32_t Class(uint32_t sequences) const { return items_.counts.empty() ? 1 : sequences; }

  const PackItems& items_;
  const BinLimits& limits_;
  BySequences open_;
  std::vector<BinRoom> rooms_;
};

}  // namespace

Bins PackBestFit(std::span<const uint32_t> order, const PackItems& items, const BinLimits& limits) {
  OpenBins open(items, limits);
  std::vector<uint32_t> bin_of(order.size());
  for (size_t i = 0; i < order.size(); ++i) {
    bin_of[i] = open.Take(order[i]);
    open.Put(order[i], bin_of[i]);
  }
  return Bins(order, bin_of, open.size());
}

}  // namespace batchplan
