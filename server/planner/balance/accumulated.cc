// Even sums for ranks that meet once a mini-batch, in bins within their limits.
//
// First way: divide the items into even sums (even_parts.h), then pack each rank's share into its
// bins. That is optimal wherever it fits within the tolerance of the effort.
//
// Second way, if the first does not fit: start from packed bins, and halve the largest until there
// are as many as wanted, or add bins of one cheap item each. Divide whole bins into even sums,
// equally many a rank. Then exchange items between the costliest rank and others
// (exchange_search.h) within the limits of the bins, and divide the changed bins anew, for a few
// rounds. The better of the two ways is the result; bins of a rank are made similar in tokens where
// the limits allow it.

#include "server/planner/balance/accumulated.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "server/planner/balance/even_parts.h"
#include "server/planner/balance/exchange_search.h"
#include "server/planner/balance/rank_bins.h"
#include "server/planner/packing/bin_state.h"
#include "server/planner/packing/orders.h"

namespace batchplan {
namespace {

// Item exchanges between ranks that keep the limits of the bins. An item goes to the bin of the
// item it is exchanged for; without one, to the rank's bin with most free tokens.
class BinRules {
 public:
  BinRules(const PackItems& items, const BinLimits& limits, const Bins& bins,
           std::span<const uint32_t> rank_of_bin, uint32_t ranks)
      : items_(items),
        bin_of_(items.size()),
        bins_(bins.size(), BinState::Empty(limits)),
        bins_of_(ranks),
        roomiest_(ranks) {
    for (uint32_t bin = 0; bin < bins.size(); ++bin) {
      for (const uint32_t item : bins[bin]) {
        bin_of_[item] = bin;
        bins_[bin].Add(Size(item));
      }
      bins_of_[rank_of_bin[bin]].push_back(bin);
    }
    for (uint32_t rank = 0; rank < ranks; ++rank) FindRoomiest(rank);
  }

  bool MayMove() const { return true; }

  bool Allow(uint32_t heavy, uint32_t light, std::span<const Exchange> move) const {
    std::array<Change, 2> heavy_changes;
    std::array<Change, 2> light_changes;
    for (size_t i = 0; i < move.size(); ++i) {
      const ItemSize out = Size(move[i].out);
      const ItemSize in = Size(move[i].in);
      heavy_changes[i] = {BinOf(move[i].out, heavy), in - out};
      light_changes[i] = {BinOf(move[i].in, light), out - in};
    }
    return Fit(std::span(heavy_changes).first(move.size())) &&
           Fit(std::span(light_changes).first(move.size()));
  }

  void Apply(uint32_t heavy, uint32_t light, std::span<const Exchange> move) {
    std::array<std::pair<uint32_t, uint32_t>, 2> places;
    for (size_t i = 0; i < move.size(); ++i) {
      places[i] = {BinOf(move[i].out, heavy), BinOf(move[i].in, light)};
    }
    for (size_t i = 0; i < move.size(); ++i) {
      Put(move[i].out, places[i].first, places[i].second);
      Put(move[i].in, places[i].second, places[i].first);
    }
    FindRoomiest(heavy);
    FindRoomiest(light);
  }

  Bins TakeBins() const {
    std::vector<uint32_t> all(items_.size());
    std::iota(all.begin(), all.end(), 0u);
    return Bins(all, bin_of_, static_cast<uint32_t>(bins_.size()));
  }

 private:
  struct Change {
    uint32_t bin = 0;
    ItemSize size;
  };

  ItemSize Size(uint32_t item) const {
    if (item == Exchange::kNothing) return {};
    return ItemSize::Of(items_.loads[item], items_.lengths[item], items_.count(item));
  }

  uint32_t BinOf(uint32_t item, uint32_t rank) const {
    return item == Exchange::kNothing ? roomiest_[rank] : bin_of_[item];
  }

  bool Fit(std::span<const Change> changes) const {
    if (changes.size() == 2 && changes[0].bin == changes[1].bin) {
      return Fit(changes[0].bin, changes[0].size + changes[1].size);
    }
    return std::ranges::all_of(changes, [&](const Change& c) { return Fit(c.bin, c.size); });
  }

  bool Fit(uint32_t bin, const ItemSize& change) const {
    return bins_[bin].Holds(change) && bins_[bin].items + change.items > 0;
  }

  void Put(uint32_t item, uint32_t from, uint32_t to) {
    if (item == Exchange::kNothing) return;
    bins_[from].Remove(Size(item));
    bins_[to].Add(Size(item));
    bin_of_[item] = to;
  }

  // The tokens that another item may have: none if the bin may not have another sequence.
  static int64_t FreeTokens(const BinState& bin) { return bin.sequences > 0 ? bin.room : -1; }

  void FindRoomiest(uint32_t rank) {
    roomiest_[rank] = *std::max_element(
        bins_of_[rank].begin(), bins_of_[rank].end(),
        [&](uint32_t a, uint32_t b) { return FreeTokens(bins_[a]) < FreeTokens(bins_[b]); });
  }

  const PackItems& items_;
  std::vector<uint32_t> bin_of_;
  std::vector<BinState> bins_;
  std::vector<std::vector<uint32_t>> bins_of_;  // of each rank
  std::vector<uint32_t> roomiest_;              // bin of each rank
};

// How often items are exchanged, and then whole bins.
int Rounds(Effort effort) { return effort == Effort::kThorough ? 8 : 2; }

class Balancer {
 public:
  Balancer(const PackItems& items, const BinLimits& limits, uint32_t ranks, size_t slots,
           Effort effort, const Allowance& allowance)
      : items_(items),
        limits_(limits),
        ranks_(ranks),
        slots_(slots),
        effort_(effort),
        allowance_(allowance) {
    std::vector<uint64_t> descending(items.size());
    const std::vector<uint32_t> order = DescendingOrder(items.loads);
    for (size_t i = 0; i < order.size(); ++i) descending[i] = items.loads[order[i]];
    const uint64_t bound = LargestSumBound(descending, ranks, slots);
    goal_ = bound + EvenTolerance(bound, effort);
  }

  Bins Run(const Bins& start) {
    const std::optional<Bins> shares = PackShares();
    if (shares && LargestCost(*shares) <= goal_) return *shares;
    const size_t count = ranks_ * slots_;
    if (allowance_.stop_requested()) return HalveLargest(items_, start, count);
    Bins exchanged = ExchangeItems(HalveLargest(items_, start, count));
    if (start.size() < count && LargestCost(exchanged) > goal_ && !Ended()) {
      Bins peeled = ExchangeItems(PeelCheapest(items_, start, count));
      if (LargestCost(peeled) < LargestCost(exchanged)) exchanged = std::move(peeled);
    }
    if (shares && LargestCost(*shares) <= LargestCost(exchanged)) return *shares;
    return EvenOut(exchanged);
  }

 private:
  bool Ended() const { return allowance_.spent() || allowance_.stop_requested(); }

  std::optional<Bins> PackShares() const {
    const std::vector<uint32_t> rank_of = EvenParts(
        items_.loads, ranks_,
        {.least_each = static_cast<uint32_t>(slots_), .effort = effort_, .allowance = allowance_});
    if (allowance_.stop_requested()) return std::nullopt;
    std::vector<uint32_t> all(items_.size());
    std::iota(all.begin(), all.end(), 0u);
    const Bins shares(all, rank_of, ranks_);
    Bins result;
    for (uint32_t rank = 0; rank < ranks_; ++rank) {
      if (allowance_.stop_requested()) return std::nullopt;
      const Allowance::Part part(allowance_, ranks_ - rank + 1);
      const std::optional<Bins> share =
          PackShare(items_, shares[rank], limits_, slots_, effort_, allowance_);
      if (!share) return std::nullopt;
      for (size_t slot = 0; slot < slots_; ++slot) result.Add((*share)[slot]);
    }
    return result;
  }

  Bins ExchangeItems(Bins bins) const {
    std::vector<uint32_t> rank_of_bin = EvenParts(
        CostsOf(bins), ranks_, {.equal_counts = true, .effort = effort_, .allowance = allowance_});
    const uint64_t steps = RefineSteps(items_.size(), effort_);
    uint64_t largest = LargestSum(bins, rank_of_bin);
    for (int round = 0; largest > goal_ && round < Rounds(effort_) && !Ended(); ++round) {
      BinRules rules(items_, limits_, bins, rank_of_bin, ranks_);
      std::vector<uint32_t> rank_of(items_.size());
      for (uint32_t bin = 0; bin < bins.size(); ++bin) {
        for (const uint32_t item : bins[bin]) rank_of[item] = rank_of_bin[bin];
      }
      ExchangeSearch(items_.loads, ranks_, rank_of, rules).Run(goal_, steps, allowance_);
      bins = rules.TakeBins();
      rank_of_bin = RefineParts(CostsOf(bins), std::move(rank_of_bin), ranks_,
                                {.equal_counts = true}, goal_, steps, allowance_);
      const uint64_t lowered = LargestSum(bins, rank_of_bin);
      if (lowered == largest) break;
      largest = lowered;
    }
    return ByRank(bins, rank_of_bin);
  }

  // Makes the bins of each rank similar in tokens if the limits allow it.
  Bins EvenOut(const Bins& bins) const {
    if (allowance_.stop_requested()) return bins;
    Bins result;
    std::vector<uint32_t> share;
    for (uint32_t rank = 0; rank < ranks_; ++rank) {
      share.clear();
      for (size_t slot = 0; slot < slots_; ++slot) {
        const std::span<const uint32_t> bin = bins[rank * slots_ + slot];
        share.insert(share.end(), bin.begin(), bin.end());
      }
      const std::optional<Bins> even = EvenBins(items_, share, limits_, slots_, allowance_);
      for (size_t slot = 0; slot < slots_; ++slot) {
        result.Add(even ? (*even)[slot] : bins[rank * slots_ + slot]);
      }
    }
    return result;
  }

  Bins ByRank(const Bins& bins, std::span<const uint32_t> rank_of_bin) const {
    std::vector<uint32_t> all(bins.size());
    std::iota(all.begin(), all.end(), 0u);
    const Bins ranks(all, rank_of_bin, ranks_);
    Bins result;
    for (uint32_t rank = 0; rank < ranks_; ++rank) {
      for (const uint32_t bin : ranks[rank]) result.Add(bins[bin]);
    }
    return result;
  }

  std::vector<uint64_t> CostsOf(const Bins& bins) const {
    std::vector<uint64_t> costs(bins.size(), 0);
    for (size_t bin = 0; bin < bins.size(); ++bin) {
      for (const uint32_t item : bins[bin]) costs[bin] += items_.loads[item];
    }
    return costs;
  }

  uint64_t LargestSum(const Bins& bins, std::span<const uint32_t> rank_of_bin) const {
    std::vector<uint64_t> sums(ranks_, 0);
    const std::vector<uint64_t> costs = CostsOf(bins);
    for (size_t bin = 0; bin < costs.size(); ++bin) sums[rank_of_bin[bin]] += costs[bin];
    return *std::max_element(sums.begin(), sums.end());
  }

  // The cost of the costliest rank; bins are in the order of the result.
  uint64_t LargestCost(const Bins& bins) const {
    std::vector<uint32_t> rank_of_bin(bins.size());
    for (size_t bin = 0; bin < bins.size(); ++bin) {
      rank_of_bin[bin] = static_cast<uint32_t>(bin / slots_);
    }
    return LargestSum(bins, rank_of_bin);
  }

  const PackItems& items_;
  const BinLimits& limits_;
  const uint32_t ranks_;
  const size_t slots_;
  const Effort effort_;
  const Allowance& allowance_;
  uint64_t goal_ = 0;
};

}  // namespace

Bins BalanceAccumulated(const PackItems& items, const BinLimits& limits, uint32_t ranks,
                        size_t slots, const Bins& start, Effort effort,
                        const Allowance& allowance) {
  return Balancer(items, limits, ranks, slots, effort, allowance).Run(start);
}

}  // namespace batchplan
