#include "server/planner/balance/rank_bins.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <queue>
#include <tuple>
#include <utility>
#include <vector>

#include "server/planner/balance/even_parts.h"
#include "server/planner/balance/longest_first.h"
#include "server/planner/packing/even_counts.h"
#include "server/planner/packing/fewest_bins.h"
#include "server/planner/packing/orders.h"

namespace batchplan {
namespace {

uint64_t TokensOf(const PackItems& items, std::span<const uint32_t> bin) {
  uint64_t tokens = 0;
  for (const uint32_t item : bin) tokens += items.lengths[item];
  return tokens;
}

uint64_t SequencesOf(const PackItems& items, std::span<const uint32_t> bin) {
  uint64_t sequences = 0;
  for (const uint32_t item : bin) sequences += items.count(item);
  return sequences;
}

// A share of the items as an instance of its own.
struct ShareItems {
  ShareItems(const PackItems& items, std::span<const uint32_t> share) {
    lengths.reserve(share.size());
    for (const uint32_t item : share) {
      lengths.push_back(items.lengths[item]);
      if (!items.counts.empty()) counts.push_back(items.counts[item]);
    }
  }

  PackItems view() const { return {.lengths = lengths, .counts = counts}; }

  std::vector<uint32_t> lengths;
  std::vector<uint32_t> counts;
};

}  // namespace

Bins HalveLargest(std::span<const uint64_t> sizes, const Bins& bins, size_t target) {
  std::vector<std::vector<uint32_t>> halves;
  std::priority_queue<std::pair<uint64_t, uint32_t>> largest;
  const auto offer = [&](uint32_t bin) {
    if (halves[bin].size() < 2) return;
    uint64_t size = 0;
    for (const uint32_t item : halves[bin]) size += sizes[item];
    largest.emplace(size, bin);
  };
  for (uint32_t bin = 0; bin < bins.size(); ++bin) {
    halves.emplace_back(bins[bin].begin(), bins[bin].end());
    offer(bin);
  }
  while (halves.size() < target) {
    const uint32_t bin = largest.top().second;
    largest.pop();
    std::vector<uint32_t> whole = std::move(halves[bin]);
    std::sort(whole.begin(), whole.end(), [&](uint32_t a, uint32_t b) {
      return std::tuple(sizes[b], a) < std::tuple(sizes[a], b);
    });
    std::vector<uint32_t> half[2];
    uint64_t size[2] = {0, 0};
    for (const uint32_t item : whole) {
      const int lighter = std::tuple(size[1], half[1].size()) < std::tuple(size[0], half[0].size());
      half[lighter].push_back(item);
      size[lighter] += sizes[item];
    }
    halves[bin] = std::move(half[0]);
    halves.push_back(std::move(half[1]));
    offer(bin);
    offer(static_cast<uint32_t>(halves.size() - 1));
  }
  Bins result;
  for (const std::vector<uint32_t>& bin : halves) result.Add(bin);
  return result;
}

Bins HalveLargest(const PackItems& items, const Bins& bins, size_t target) {
  const std::vector<uint64_t> tokens(items.lengths.begin(), items.lengths.end());
  return HalveLargest(tokens, bins, target);
}

Bins PeelCheapest(const PackItems& items, const Bins& bins, size_t target) {
  std::vector<uint32_t> bin_of(items.size());
  std::vector<size_t> left(bins.size());
  for (uint32_t bin = 0; bin < bins.size(); ++bin) {
    left[bin] = bins[bin].size();
    for (const uint32_t item : bins[bin]) bin_of[item] = bin;
  }
  const std::vector<uint32_t> order = DescendingOrder(items.loads);
  auto added = static_cast<uint32_t>(bins.size());
  for (auto item = order.rbegin(); item != order.rend() && added < target; ++item) {
    if (left[bin_of[*item]] == 1) continue;
    --left[bin_of[*item]];
    bin_of[*item] = added++;
  }
  std::vector<uint32_t> all(items.size());
  std::iota(all.begin(), all.end(), 0u);
  return Bins(all, bin_of, added);
}

std::optional<Bins> EvenBins(const PackItems& items, std::span<const uint32_t> share,
                             const BinLimits& limits, size_t slots, const Allowance& allowance) {
  std::vector<uint64_t> tokens;
  tokens.reserve(share.size());
  for (const uint32_t item : share) tokens.push_back(items.lengths[item]);
  const auto count = static_cast<uint32_t>(slots);
  const EvenPartsOptions options = {
      .least_each = 1, .effort = Effort::kFast, .allowance = allowance};
  const std::vector<uint32_t> bin_of = EvenParts(tokens, count, options);
  if (allowance.stop_requested()) return std::nullopt;
  Bins bins(share, bin_of, count);
  for (size_t bin = 0; bin < slots; ++bin) {
    if (TokensOf(items, bins[bin]) > limits.capacity) return std::nullopt;
    if (SequencesOf(items, bins[bin]) > limits.max_sequences) return std::nullopt;
  }
  return bins;
}

std::optional<Bins> PackShare(const PackItems& items, std::span<const uint32_t> share,
                              const BinLimits& limits, size_t slots, Effort effort,
                              const Allowance& allowance) {
  if (share.size() < slots) return std::nullopt;
  if (TokensOf(items, share) > uint64_t{limits.capacity} * slots) return std::nullopt;
  if (std::optional<Bins> even = EvenBins(items, share, limits, slots, allowance)) return even;
  if (allowance.stop_requested()) return std::nullopt;
  const ShareItems share_items(items, share);
  const std::optional<Bins> packed = PackInto(share_items.view(), limits, slots, effort, allowance);
  if (!packed) return std::nullopt;
  const Bins local = HalveLargest(share_items.view(), *packed, slots);
  Bins bins;
  std::vector<uint32_t> bin;
  for (size_t slot = 0; slot < local.size(); ++slot) {
    bin.clear();
    for (const uint32_t item : local[slot]) bin.push_back(share[item]);
    bins.Add(bin);
  }
  return bins;
}

std::vector<uint32_t> DealBins(std::span<const uint64_t> loads, uint32_t ranks, size_t slots) {
  std::vector<uint64_t> with_empty(loads.begin(), loads.end());
  with_empty.resize(ranks * slots, 0);
  const std::vector<uint32_t> order = DescendingOrder(with_empty);
  const std::vector<uint32_t> rank_of = DealLayers(with_empty, order, ranks);
  std::vector<uint32_t> bin_at(order.size());
  for (size_t i = 0; i < order.size(); ++i) {
    bin_at[rank_of[order[i]] * slots + i / ranks] = order[i];
  }
  return bin_at;
}

namespace {

// The bins sorted by cost, `ranks` to a slot. Within a slot the bin with most sequences goes to the
// rank with fewest.
std::vector<uint32_t> RankBins(const Filling& filling) {
  const uint32_t ranks = filling.task().ranks;
  const uint32_t slots = filling.task().slots;
  std::vector<std::pair<uint64_t, uint32_t>> by_cost;
  for (uint32_t bin = 0; bin < filling.bins(); ++bin) by_cost.emplace_back(filling[bin].cost, bin);
  std::sort(by_cost.begin(), by_cost.end(), [](const auto& a, const auto& b) {
    return std::pair(b.first, a.second) < std::pair(a.first, b.second);
  });
  std::vector<std::pair<size_t, uint32_t>> rank_counts(ranks);
  for (uint32_t rank = 0; rank < ranks; ++rank) rank_counts[rank] = {0, rank};
  std::vector<uint32_t> place_of(filling.bins());
  std::vector<std::pair<size_t, uint32_t>> slot_counts(ranks);
  for (uint32_t slot = 0; slot < slots; ++slot) {
    for (uint32_t i = 0; i < ranks; ++i) {
      const uint32_t bin = by_cost[slot * ranks + i].second;
      slot_counts[i] = {filling.Members(bin).size(), bin};
    }
    std::sort(slot_counts.rbegin(), slot_counts.rend());
    std::sort(rank_counts.begin(), rank_counts.end());
    for (uint32_t i = 0; i < ranks; ++i) {
      auto& [count, rank] = rank_counts[i];
      count += slot_counts[i].first;
      place_of[slot_counts[i].second] = rank * slots + slot;
    }
  }
  return place_of;
}

class CountMender {
 public:
  explicit CountMender(Filling& filling) : filling_(filling), slots_(filling.task().slots) {}

  bool Run() {
    const uint32_t ranks = filling_.task().ranks;
    std::vector<size_t> counts(ranks, 0);
    for (uint32_t bin = 0; bin < filling_.bins(); ++bin) {
      counts[bin / slots_] += filling_.Members(bin).size();
    }
    const std::vector<size_t> wanted = Wanted(counts);
    uint32_t poor = 0;
    for (uint32_t rich = 0; rich < ranks; ++rich) {
      while (counts[rich] > wanted[rich]) {
        while (counts[poor] >= wanted[poor]) ++poor;
        if (!MoveOne(rich, poor)) return false;
        --counts[rich];
        ++counts[poor];
      }
    }
    return true;
  }

 private:
  // Equal counts; if some are left over, the ranks with most have one more.
  static std::vector<size_t> Wanted(const std::vector<size_t>& counts) {
    const EvenCounts even(std::accumulate(counts.begin(), counts.end(), uint64_t{0}),
                          counts.size());
    std::vector<size_t> wanted(counts.size(), even.least);
    if (even.larger == 0) return wanted;
    std::vector<uint32_t> richest(counts.size());
    std::iota(richest.begin(), richest.end(), 0u);
    std::stable_sort(richest.begin(), richest.end(),
                     [&](uint32_t a, uint32_t b) { return counts[a] > counts[b]; });
    for (size_t i = 0; i < even.larger; ++i) ++wanted[richest[i]];
    return wanted;
  }

  // Moves the cheapest item of one rank that fits into the other rank's roomiest bin that may have
  // one more sequence.
  bool MoveOne(uint32_t rich, uint32_t poor) {
    uint32_t roomiest = Filling::kUnplaced;
    for (uint32_t bin = poor * slots_; bin < (poor + 1) * slots_; ++bin) {
      if (filling_[bin].sequences > 0 &&
          (roomiest == Filling::kUnplaced || filling_[bin].room > filling_[roomiest].room)) {
        roomiest = bin;
      }
    }
    if (roomiest == Filling::kUnplaced) return false;
    uint32_t cheapest = Filling::kUnplaced;
    for (uint32_t bin = rich * slots_; bin < (rich + 1) * slots_; ++bin) {
      const uint32_t last = filling_.Members(bin).back();
      const bool better = cheapest == Filling::kUnplaced || last > cheapest;
      if (filling_.Members(bin).size() > 1 && filling_.Holds(roomiest, last) && better) {
        cheapest = last;
      }
    }
    if (cheapest == Filling::kUnplaced) return false;
    filling_.Move(cheapest, roomiest);
    return true;
  }

  Filling& filling_;
  const uint32_t slots_;
};

}  // namespace

std::optional<Filling> ShareCountsEqually(const Filling& filling) {
  const std::vector<uint32_t> place_of = RankBins(filling);
  Filling shared(filling.task());
  for (uint32_t i = 0; i < filling.task().size(); ++i) {
    shared.Place(i, place_of[filling.BinOf(i)]);
  }
  if (!CountMender(shared).Run()) return std::nullopt;
  return shared;
}

}  // namespace batchplan
