#include "server/planner/balance/alike_bins.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "server/planner/balance/rank_bins.h"
#include "server/planner/packing/fewest_bins.h"

namespace batchplan {
namespace {

constexpr size_t kFewestItems = 65536;
// With fewer slots the bins of one slot differ by too much if every bin is full.
constexpr uint64_t kFewestSlots = 150;
// Longest processing time first fills bins that have more room than 1 / kMostRoomPart of the
// tokens. With less than 1 / kLeastRoomPart too many items must be packed one by one.
constexpr uint64_t kMostRoomPart = 1000;
constexpr uint64_t kLeastRoomPart = 2000;
// Layers are about so many, and sets have at most so many bins.
constexpr size_t kLayers = 16384;
constexpr uint32_t kMostBinsOfSet = 64;
// Items are packed one by one if they are at most 1 / kSinglePart of all.
constexpr size_t kSinglePart = 4;
// Eighths of the room that a packing tries to leave in every bin: none, to see whether it can be
// done, then the largest that it can. Sets leave half to the items that are packed one by one.
constexpr uint32_t kRoomOfSets[] = {0, 4, 2};
constexpr uint32_t kRoomOfBins[] = {0, 7, 6, 5, 4, 3, 2, 1};

// The bins of a set, which divide all bins; 0 if that makes too many layers.
uint32_t BinsOfSet(size_t items, uint32_t bins) {
  const auto most = static_cast<uint32_t>(std::min<size_t>(kMostBinsOfSet, items / kLayers));
  for (uint32_t size = most; size > most / 2; --size) {
    if (bins % size == 0) return size;
  }
  return 0;
}

// Packs with this capacity. Longer items get bins of their own. More than `most` bins are of no
// use.
Bins PackShort(const PackItems& items, const BinLimits& limits, size_t most,
               const Allowance& allowance) {
  std::vector<uint32_t> numbers;
  std::vector<uint32_t> lengths;
  std::vector<uint32_t> counts;
  numbers.reserve(items.size());
  lengths.reserve(items.size());
  counts.reserve(items.size());
  Bins bins;
  for (uint32_t item = 0; item < items.size(); ++item) {
    if (items.lengths[item] > limits.capacity) {
      bins.Add({&item, 1});
      continue;
    }
    numbers.push_back(item);
    lengths.push_back(items.lengths[item]);
    counts.push_back(items.count(item));
  }
  if (numbers.empty() || bins.size() >= most) return bins;
  const FewestBins packed = PackFewest({.lengths = lengths, .counts = counts}, limits,
                                       most - bins.size(), Effort::kFast, allowance);
  std::vector<uint32_t> of_bin;
  for (size_t bin = 0; bin < packed.bins.size(); ++bin) {
    of_bin.clear();
    for (const uint32_t number : packed.bins[bin]) of_bin.push_back(numbers[number]);
    bins.Add(of_bin);
  }
  return bins;
}

// Exactly `count` bins that leave as many of these eighths of the mean room as is found possible.
std::optional<Bins> PackEvenly(const PackItems& items, const BinLimits& limits, size_t count,
                               std::span<const uint32_t> eighths, const Allowance& allowance) {
  const uint64_t tokens = std::accumulate(items.lengths.begin(), items.lengths.end(), uint64_t{0});
  if (items.size() < count || tokens > uint64_t{limits.capacity} * count) return std::nullopt;
  const uint64_t room = limits.capacity - (tokens + count - 1) / count;
  std::optional<Bins> best;
  for (const uint32_t share : eighths) {
    if (allowance.stop_requested()) return std::nullopt;
    const BinLimits reduced = {
        .capacity = limits.capacity - static_cast<uint32_t>(room * share / 8),
        .max_sequences = limits.max_sequences};
    Bins bins = PackShort(items, reduced, count, allowance);
    size_t packed = 0;
    for (size_t bin = 0; bin < bins.size(); ++bin) packed += bins[bin].size();
    const bool fits = packed == items.size() && bins.size() <= count;
    if (fits) best = std::move(bins);
    if (fits != (share == 0)) break;
  }
  if (best && best->size() < count) return HalveLargest(items, *best, count);
  return best;
}

class AlikeFiller {
 public:
  AlikeFiller(const SortedTask& task, const Allowance& allowance)
      : task_(task),
        allowance_(allowance),
        bins_of_set_(BinsOfSet(task.size(), task.bins())),
        layers_((task.size() + bins_of_set_ - 1) / bins_of_set_),
        bin_of_(task.size()) {}

  std::optional<Bins> Run() {
    const std::optional<Bins> packed = PackLayers(task_.bins() / bins_of_set_);
    if (!packed) return std::nullopt;
    sets_.reserve(packed->size());
    for (size_t set = 0; set < packed->size(); ++set) {
      sets_.emplace_back((*packed)[set].begin(), (*packed)[set].end());
      std::sort(sets_.back().begin(), sets_.back().end());
    }
    // First those that can be dealt, the shortest last.
    const auto shorter = [](const Layers& a, const Layers& b) { return a.front() < b.front(); };
    const auto middle = std::stable_partition(sets_.begin(), sets_.end(),
                                              [&](const Layers& set) { return Deal(set); });
    std::stable_sort(sets_.begin(), middle, shorter);
    const auto dealt = static_cast<size_t>(middle - sets_.begin());
    if (dealt == sets_.size()) return Collect(dealt, {}, Bins());
    // The rest are packed together with a set of short items, or more if there are too few bins.
    for (size_t added = 1; added <= dealt; added *= 2) {
      const size_t singly = sets_.size() - dealt + added;
      if (allowance_.stop_requested()) return std::nullopt;
      const std::vector<uint32_t> positions = PositionsOf(std::span(sets_).last(singly));
      if (positions.size() > task_.size() / kSinglePart) break;
      const std::optional<Bins> single = PackSingly(positions, singly * bins_of_set_);
      if (single) return Collect(sets_.size() - singly, positions, *single);
    }
    return std::nullopt;
  }

 private:
  // The layers of a set, ascending.
  using Layers = std::vector<uint32_t>;

  uint32_t Begin(size_t layer) const {
    return static_cast<uint32_t>(std::min(layer * bins_of_set_, task_.size()));
  }

  BinLimits LimitsOfSet() const {
    constexpr uint64_t kMost = std::numeric_limits<uint32_t>::max();
    return {.capacity = task_.limits.capacity * bins_of_set_,
            .max_sequences = static_cast<uint32_t>(
                std::min(kMost, uint64_t{task_.limits.max_sequences} * bins_of_set_))};
  }

  std::optional<Bins> PackLayers(size_t sets) const {
    std::vector<uint32_t> lengths(layers_);
    std::vector<uint32_t> counts(layers_);
    for (size_t layer = 0; layer < layers_; ++layer) {
      for (uint32_t i = Begin(layer); i < Begin(layer + 1); ++i) {
        lengths[layer] += task_.length[i];
        counts[layer] += task_.count[i];
      }
    }
    return PackEvenly({.lengths = lengths, .counts = counts}, LimitsOfSet(), sets, kRoomOfSets,
                      allowance_);
  }

  // Deals the layers to the bins of a set. False if not every bin holds what it gets, or one stays
  // empty.
  bool Deal(const Layers& layers) {
    std::array<BinState, kMostBinsOfSet> bins;
    std::array<std::pair<uint64_t, uint32_t>, kMostBinsOfSet> cheapest;  // cost, bin
    for (uint32_t bin = 0; bin < bins_of_set_; ++bin) {
      bins[bin] = BinState::Empty(task_.limits);
      cheapest[bin] = {0, bin};
    }
    for (const uint32_t layer : layers) {
      std::sort(cheapest.begin(), cheapest.begin() + bins_of_set_);
      auto next = cheapest.begin();
      for (uint32_t i = Begin(layer); i < Begin(layer + 1); ++i, ++next) {
        BinState& bin = bins[next->second];
        if (!bin.Holds(task_.SizeOf(i))) return false;
        bin.Add(task_.SizeOf(i));
        next->first = bin.cost;
        bin_of_[i] = static_cast<uint8_t>(next->second);
      }
    }
    return std::none_of(bins.begin(), bins.begin() + bins_of_set_,
                        [](const BinState& bin) { return bin.items == 0; });
  }

  std::vector<uint32_t> PositionsOf(std::span<const Layers> sets) const {
    std::vector<uint32_t> positions;
    size_t layer_count = 0;
    for (const Layers& layers : sets) layer_count += layers.size();
    positions.reserve(layer_count * bins_of_set_);
    for (const Layers& layers : sets) {
      for (const uint32_t layer : layers) {
        for (uint32_t i = Begin(layer); i < Begin(layer + 1); ++i) positions.push_back(i);
      }
    }
    std::sort(positions.begin(), positions.end());
    return positions;
  }

  std::optional<Bins> PackSingly(std::span<const uint32_t> positions, size_t bins) const {
    std::vector<uint32_t> lengths;
    std::vector<uint32_t> counts;
    lengths.reserve(positions.size());
    counts.reserve(positions.size());
    for (const uint32_t i : positions) {
      lengths.push_back(task_.length[i]);
      counts.push_back(task_.count[i]);
    }
    return PackEvenly({.lengths = lengths, .counts = counts}, task_.limits, bins, kRoomOfBins,
                      allowance_);
  }

  // The bins of the first sets, as they were dealt, and these bins of the positions.
  Bins Collect(size_t dealt, std::span<const uint32_t> positions, const Bins& single) const {
    std::vector<uint32_t> in_bins(task_.size());
    std::vector<uint32_t> offsets;
    offsets.reserve(task_.bins() + size_t{1});
    offsets.push_back(0);
    std::array<uint32_t, kMostBinsOfSet> next;
    for (const Layers& layers : std::span(sets_).first(dealt)) {
      next.fill(0);
      for (const uint32_t layer : layers) {
        for (uint32_t i = Begin(layer); i < Begin(layer + 1); ++i) ++next[bin_of_[i]];
      }
      for (uint32_t bin = 0; bin < bins_of_set_; ++bin) {
        offsets.push_back(offsets.back() + next[bin]);
        next[bin] = offsets[offsets.size() - 2];
      }
      for (const uint32_t layer : layers) {
        for (uint32_t i = Begin(layer); i < Begin(layer + 1); ++i) in_bins[next[bin_of_[i]]++] = i;
      }
    }
    uint32_t end = offsets.back();
    for (size_t bin = 0; bin < single.size(); ++bin) {
      for (const uint32_t number : single[bin]) in_bins[end++] = positions[number];
      std::sort(in_bins.begin() + offsets.back(), in_bins.begin() + end);
      offsets.push_back(end);
    }
    return Bins(std::move(in_bins), std::move(offsets));
  }

  const SortedTask& task_;
  const Allowance& allowance_;
  const uint32_t bins_of_set_;
  const size_t layers_;
  std::vector<Layers> sets_;
  std::vector<uint8_t> bin_of_;  // of each position, in its set
};

}  // namespace

bool WorthFillingAlike(size_t items, uint64_t tokens, const BinLimits& limits, uint32_t ranks,
                       uint64_t slots) {
  const uint64_t holds = slots * ranks * limits.capacity;
  if (holds < tokens) return false;
  const uint64_t room = holds - tokens;
  return items > kFewestItems && ranks > 1 && slots >= kFewestSlots &&
         room < tokens / kMostRoomPart && room >= tokens / kLeastRoomPart;
}

std::optional<Bins> FillAlike(const SortedTask& task, const Allowance& allowance) {
  // The tokens of a layer and what a set holds are numbers of 32 bits.
  const bool overflows =
      task.limits.capacity > std::numeric_limits<uint32_t>::max() / kMostBinsOfSet;
  const bool divides = BinsOfSet(task.size(), task.bins()) > 0;
  if (!task.lengths_descend || overflows || !divides) return std::nullopt;
  return AlikeFiller(task, allowance).Run();
}

}  // namespace batchplan
