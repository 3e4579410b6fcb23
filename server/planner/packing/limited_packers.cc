#include "server/planner/packing/limited_packers.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <map>
#include <numeric>
#include <set>
#include <utility>
#include <vector>

#include "server/planner/packing/limited_room.h"
#include "server/planner/packing/maxima.h"

namespace batchplan {

LimitedRooms::LimitedRooms(const PackItems& items, std::vector<LimitedRoom> rooms)
    : items_(items),
      rooms_(std::move(rooms)),
      numbers_(2 + items.limited.size()),
      most_(rooms_.size(), numbers_) {
  for (size_t bin = 0; bin < rooms_.size(); ++bin) Note(bin);
}

size_t LimitedRooms::FirstThatHolds(size_t begin, uint32_t item) {
  numbers_[0] = items_.lengths[item];
  numbers_[1] = items_.count(item);
  for (size_t load = 0; load < items_.limited.size(); ++load) {
    numbers_[2 + load] = items_.limited[load].values[item];
  }
  return most_.FirstAtLeast(begin, numbers_);
}

void LimitedRooms::Take(size_t bin, uint32_t item) {
  rooms_[bin].Take(items_, item);
  Note(bin);
}

void LimitedRooms::Note(size_t bin) {
  const LimitedRoom& room = rooms_[bin];
  // Every item needs tokens and sequences: if either has run out, nothing fits.
  const bool full = room.tokens() == 0 || room.sequences() == 0;
  numbers_[0] = full ? 0 : room.tokens();
  numbers_[1] = full ? 0 : room.sequences();
  for (size_t load = 0; load < items_.limited.size(); ++load) {
    numbers_[2 + load] = full ? 0 : room.left(load);
  }
  most_.Set(bin, numbers_);
}

namespace {

// After this many bins of a class that do not hold an item, the rest of the class is passed over.
constexpr size_t kMostMisses = 64;

// The bins that may still get items, by their room.
class LimitedOpenBins {
 public:
  LimitedOpenBins(const PackItems& items, const BinLimits& limits)
      : items_(items), limits_(limits) {}

  // Removes the fullest open bin that holds the item and returns it; a new bin if there is none.
  uint32_t Take(uint32_t item) {
    const Levels least = LevelsOf([&](size_t load) { return items_.limited[load].values[item]; },
                                  items_.count(item));
    ByLevels::iterator best_class = open_.end();
    ByTokens::iterator best;
    size_t misses = 0;
    for (auto found = open_.begin(); found != open_.end(); ++found) {
      if (!Reaches(found->first, least)) continue;
      ByTokens& bins = found->second;
      for (auto bin = bins.lower_bound({items_.lengths[item], 0}); bin != bins.end(); ++bin) {
        if (best_class != open_.end() && *best < *bin) break;
        if (!rooms_[bin->second].Holds(items_, item)) {
          if (++misses > kMostMisses) break;
          continue;
        }
        best_class = found;
        best = bin;
        break;
      }
    }
    if (best_class == open_.end()) {
      rooms_.emplace_back(items_, limits_);
      return static_cast<uint32_t>(rooms_.size() - 1);
    }
    const uint32_t bin = best->second;
    best_class->second.erase(best);
    if (best_class->second.empty()) open_.erase(best_class);
    return bin;
  }

  void Put(uint32_t item, uint32_t bin) {
    LimitedRoom& room = rooms_[bin];
    room.Take(items_, item);
    if (room.tokens() == 0 || room.sequences() == 0) return;
    const Levels levels = LevelsOf([&](size_t load) { return room.left(load); }, room.sequences());
    open_[levels].insert({room.tokens(), bin});
  }

  uint32_t size() const { return static_cast<uint32_t>(rooms_.size()); }

 private:
  // A level for each load and, at the end, for sequences: bins of lower levels hold less.
  using Levels = std::array<uint32_t, kMaxLoads + 1>;
  using ByTokens = std::set<std::pair<uint32_t, uint32_t>>;  // (tokens left, bin)
  using ByLevels = std::map<Levels, ByTokens>;

  // Parts of a limit below this power of two count as nothing.
  static constexpr int kLeastExponent = -20;
  // Levels for each doubling of one load; with more loads fewer, or there would be too many.
  static constexpr int kLevels = 16;

  template <typename Amount>
  Levels LevelsOf(Amount amount, uint32_t sequences) const {
    Levels levels = {};
    const size_t loads = items_.limited.size();
    const double coarser = std::pow(4, loads - 1);
    for (size_t load = 0; load < loads; ++load) {
      const double left = amount(load);
      if (left <= 0) continue;
      int exponent = 0;
      const double part = std::frexp(left / items_.limited[load].most, &exponent);  // 0.5 .. 1
      const double doublings = std::max(exponent - kLeastExponent, 0) + 2 * part - 1;
      levels[load] = 1 + static_cast<uint32_t>(doublings * kLevels / coarser);
    }
    // If every item is one sequence, any number left is as good as another.
    levels.back() = items_.counts.empty() ? 1 : sequences;
    return levels;
  }

  static bool Reaches(const Levels& levels, const Levels& least) {
    for (size_t i = 0; i < levels.size(); ++i) {
      if (levels[i] < least[i]) return false;
    }
    return true;
  }

  const PackItems& items_;
  const BinLimits& limits_;
  ByLevels open_;
  std::vector<LimitedRoom> rooms_;
};

}  // namespace

Bins LimitedBestFit(std::span<const uint32_t> order, const PackItems& items,
                    const BinLimits& limits) {
  LimitedOpenBins open(items, limits);
  std::vector<uint32_t> bin_of(order.size());
  for (size_t i = 0; i < order.size(); ++i) {
    bin_of[i] = open.Take(order[i]);
    open.Put(order[i], bin_of[i]);
  }
  return Bins(order, bin_of, open.size());
}

namespace {

std::vector<uint32_t> Descending(std::span<const double> sizes) {
  std::vector<uint32_t> order(sizes.size());
  std::iota(order.begin(), order.end(), 0u);
  std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
    return sizes[a] != sizes[b] ? sizes[a] > sizes[b] : a < b;
  });
  return order;
}

// Each item's share of a bin's tokens and of its limited loads.
std::vector<std::vector<double>> PartsOf(const PackItems& items, const BinLimits& limits) {
  std::vector<std::vector<double>> parts(1 + items.limited.size());
  parts[0].assign(items.lengths.begin(), items.lengths.end());
  for (double& part : parts[0]) part /= limits.capacity;
  for (size_t load = 0; load < items.limited.size(); ++load) {
    const PackLoad& limited = items.limited[load];
    parts[1 + load] = limited.values;
    if (limited.most <= 0) continue;
    for (double& part : parts[1 + load]) part /= limited.most;
  }
  return parts;
}

std::vector<double> LargestParts(const std::vector<std::vector<double>>& parts) {
  std::vector<double> largest = parts[0];
  for (const std::vector<double>& of_load : parts) {
    for (size_t item = 0; item < largest.size(); ++item) {
      largest[item] = std::max(largest[item], of_load[item]);
    }
  }
  return largest;
}

}  // namespace

std::vector<std::vector<uint32_t>> LimitedOrders(const PackItems& items, const BinLimits& limits) {
  const std::vector<std::vector<double>> parts = PartsOf(items, limits);
  std::vector<std::vector<uint32_t>> orders;
  // R. Panigrahy et al., "Heuristics for vector bin packing" (2011), weigh by the sum over all.
  std::vector<double> weighed(items.size(), 0);
  for (const std::vector<double>& of_load : parts) {
    const double weight = std::accumulate(of_load.begin(), of_load.end(), 0.0);
    for (size_t item = 0; item < items.size(); ++item) weighed[item] += weight * of_load[item];
  }
  orders.push_back(Descending(weighed));
  orders.push_back(Descending(LargestParts(parts)));
  for (size_t load = 1; load < parts.size(); ++load) orders.push_back(Descending(parts[load]));
  return orders;
}

std::vector<uint32_t> ByLargestPart(const PackItems& items, const BinLimits& limits) {
  return Descending(LargestParts(PartsOf(items, limits)));
}

}  // namespace batchplan
