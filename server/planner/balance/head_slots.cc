#include <algorithm>
#include <span>
#include <utility>
#include <vector>

#include "absl/container/btree_set.h"
#include "server/planner/balance/bin_filling.h"

namespace batchplan {
namespace {

// Other ways to fill a slot are tried if it wastes more than 1 / kTolerance of its cost.
constexpr uint64_t kTolerance = 10000;
constexpr uint64_t kQuantiles = 8;
// The most unused items that are looked at for one that fits: a cheap item may still be too long.
constexpr int kMaxMisses = 32;
// Exchanges with unused items that bring a bin closer to its slot's cost.
constexpr int kMaxExchanges = 8;

// The most positions that are looked at; after that, the remaining slots are filled like all
// others. Far more than needed if most tries for a slot are kept.
uint64_t Looks(uint64_t items) { return 100'000 + 32 * items; }
constexpr uint64_t kTicksALook = 20;

struct Bin : BinState {
  std::vector<uint32_t> positions = {};
};

// The bins of a slot that may have one more sequence, for items of descending cost.
class OpenBins {
 public:
  OpenBins(std::span<const Bin> bins, uint64_t most) : bins_(bins), most_(most), least_(most + 1) {
    for (uint32_t bin = 0; bin < bins_.size(); ++bin) Add(bin);
  }

  // The most that a bin's cost may still grow, and the most room of a bin; 0 if there are none.
  uint64_t widest() const { return by_gap_.empty() ? 0 : by_gap_.rbegin()->first; }
  int64_t roomiest() const { return by_room_.empty() ? 0 : by_room_.rbegin()->first; }

  // The tightest bin that holds the item, which must cost no more than the items before. kNone if
  // there is none, or if many bins have room for its tokens but not for its sequences.
  uint32_t Tightest(uint64_t cost, uint32_t length, uint32_t count) {
    for (auto found = by_gap_.lower_bound({cost, 0});
         found != by_gap_.end() && found->first < least_; ++found) {
      holding_.emplace(bins_[found->second].room, found->second);
    }
    least_ = cost;
    auto found = holding_.lower_bound({length, 0});
    for (int misses = 0; found != holding_.end() && misses < kMaxMisses; ++found, ++misses) {
      if (count <= bins_[found->second].sequences) return found->second;
    }
    return kNone;
  }

  // To be called before and after a change of the bin.
  void Remove(uint32_t bin) {
    by_gap_.erase({most_ - bins_[bin].cost, bin});
    by_room_.erase({bins_[bin].room, bin});
    holding_.erase({bins_[bin].room, bin});
  }
  void Add(uint32_t bin) {
    if (bins_[bin].sequences == 0) return;
    const uint64_t gap = most_ - bins_[bin].cost;
    by_gap_.emplace(gap, bin);
    by_room_.emplace(bins_[bin].room, bin);
    if (gap >= least_) holding_.emplace(bins_[bin].room, bin);
  }

  static constexpr uint32_t kNone = Filling::kUnplaced;

 private:
  using ByRoom = absl::btree_set<std::pair<int64_t, uint32_t>>;  // (room, bin)

  std::span<const Bin> bins_;
  const uint64_t most_;
  uint64_t least_;                                         // of the items so far
  absl::btree_set<std::pair<uint64_t, uint32_t>> by_gap_;  // (growth of its cost, bin)
  ByRoom by_room_;
  ByRoom holding_;  // bins whose cost may grow by `least_`
};

struct Slot {
  std::vector<Bin> bins;
  uint64_t cost = 0;   // of the costliest bin
  uint64_t waste = 0;  // by how much all bins together stay below it
};

class HeadFiller {
 public:
  HeadFiller(const Allowance& allowance, IndexSet& unused, Filling& filling)
      : allowance_(allowance),
        unused_(unused),
        filling_(filling),
        task_(filling.task()),
        search_(allowance, Looks(task_.size()), kTicksALook, 4 * uint64_t{task_.size()}),
        looks_(search_.left) {}

  uint32_t Run() {
    const uint32_t ranks = task_.ranks;
    uint64_t left = task_.total_cost;
    uint64_t unused = task_.size();
    uint32_t filled = 0;
    for (; filled + 1 < task_.slots; ++filled) {
      const uint64_t slots = task_.slots - filled;
      const uint64_t reserve = (slots - 1) * ranks;
      if (unused < reserve + ranks) break;
      const uint64_t longest = task_.cost[unused_.AtLeast(0)];
      if (longest <= left / (slots * ranks)) break;
      if (looks_ == 0 || allowance_.stop_requested()) break;
      spare_ = unused - reserve;
      const Slot slot = BestSlot(longest);
      for (uint32_t rank = 0; rank < ranks; ++rank) {
        const Bin& bin = slot.bins[rank];
        for (uint32_t position : bin.positions) {
          unused_.Erase(position);
          --unused;
          filling_.Place(position, filled * ranks + rank);
        }
        left -= bin.cost;
      }
    }
    return filled;
  }

 private:
  Slot BestSlot(uint64_t longest) {
    Slot best = FillBesideSeeds(longest);
    if (IsGood(best)) return best;
    const uint32_t seed = static_cast<uint32_t>(unused_.AtLeast(0));
    std::vector<uint32_t> beside;
    const size_t first = task_.FirstWithin(longest, task_.limits.capacity - task_.length[seed]);
    for (uint64_t q = 0; q < kQuantiles; ++q) {
      const size_t position = unused_.AtLeast(first + (task_.size() - first) * q / kQuantiles);
      if (position < task_.size() && position != seed) {
        beside.push_back(static_cast<uint32_t>(position));
      }
    }
    for (uint32_t position : beside) {
      if (looks_ == 0) return best;
      Keep(FillBesideSeeds(longest + task_.cost[position]), best);
    }
    if (!IsGood(best)) Keep(FillTightest(longest), best);
    return best;
  }

  bool IsGood(const Slot& slot) const { return slot.waste <= slot.cost / kTolerance * task_.ranks; }

  static void Keep(Slot slot, Slot& best) {
    if (slot.waste < best.waste) best = std::move(slot);
  }

  // One of the costliest items in each bin, and beside it what the limits and `most` allow.
  Slot FillBesideSeeds(uint64_t most) {
    Open();
    for (Bin& bin : slot_.bins) Take(bin, static_cast<uint32_t>(unused_.AtLeast(0)));
    for (Bin& bin : slot_.bins) {
      while (spare_ > taken_) {
        const size_t position = FindFitting(most - bin.cost, bin.room, bin.sequences);
        if (position == IndexSet::kNone) break;
        Take(bin, static_cast<uint32_t>(position));
      }
      Exchange(most, bin);
    }
    return Close();
  }

  // Items in descending order into the tightest bin that holds them.
  Slot FillTightest(uint64_t most) {
    Open();
    OpenBins open(slot_.bins, most);
    uint32_t empty = task_.ranks;
    uint64_t misses = uint64_t{kMaxMisses} * task_.ranks;
    for (size_t position = 0; spare_ > taken_ && misses > 0; ++position) {
      position = FindFitting(open.widest(), open.roomiest(), task_.limits.max_sequences, position);
      if (position == IndexSet::kNone) break;
      const auto item = static_cast<uint32_t>(position);
      const uint32_t tightest =
          open.Tightest(task_.cost[item], task_.length[item], task_.count[item]);
      const bool opens = tightest != OpenBins::kNone && slot_.bins[tightest].positions.empty();
      if (tightest == OpenBins::kNone || (!opens && spare_ - taken_ <= empty)) {
        --misses;
        continue;
      }
      empty -= opens;
      open.Remove(tightest);
      Take(slot_.bins[tightest], item);
      open.Add(tightest);
    }
    for (Bin& bin : slot_.bins) {
      if (bin.positions.empty()) Take(bin, static_cast<uint32_t>(unused_.AtLeast(0)));
    }
    return Close();
  }

  // Replaces an item of the bin by a costlier unused one while that brings it closer to `most`.
  void Exchange(uint64_t most, Bin& bin) {
    for (int i = 0; i < kMaxExchanges && most - bin.cost > most / kTolerance; ++i) {
      uint64_t best_gain = 0;
      size_t best_out = 0;
      uint32_t best_in = 0;
      for (size_t m = 1; m < bin.positions.size(); ++m) {
        const uint32_t out = bin.positions[m];
        const size_t in =
            FindFitting(most - bin.cost + task_.cost[out], bin.room + task_.length[out],
                        bin.sequences + task_.count[out]);
        if (in == IndexSet::kNone || task_.cost[in] <= task_.cost[out] + best_gain) continue;
        best_gain = task_.cost[in] - task_.cost[out];
        best_out = m;
        best_in = static_cast<uint32_t>(in);
      }
      if (best_gain == 0) return;
      const uint32_t out = bin.positions[best_out];
      bin.positions.erase(bin.positions.begin() + static_cast<ptrdiff_t>(best_out));
      bin.Remove(task_.SizeOf(out));
      unused_.Insert(out);
      --taken_;
      Take(bin, best_in);
    }
  }

  // The costliest unused item within these limits, at or after `from`.
  size_t FindFitting(uint64_t most_cost, int64_t room, int64_t sequences, size_t from = 0) {
    const size_t first = task_.FirstWithin(most_cost, static_cast<uint32_t>(room));
    size_t position = unused_.AtLeast(std::max(from, first));
    for (int misses = 0; position < task_.size(); ++misses) {
      if (looks_ > 0) --looks_;
      if (task_.length[position] <= room && task_.count[position] <= sequences) {
        return position;
      }
      if (misses == kMaxMisses) break;
      position = unused_.AtLeast(position + 1);
    }
    return IndexSet::kNone;
  }

  void Open() {
    slot_ = Slot();
    slot_.bins.assign(task_.ranks, Bin{BinState::Empty(task_.limits)});
    taken_ = 0;
  }

  void Take(Bin& bin, uint32_t position) {
    unused_.Erase(position);
    ++taken_;
    bin.positions.push_back(position);
    bin.Add(task_.SizeOf(position));
  }

  // Puts everything back and returns the slot with its waste.
  Slot Close() {
    for (const Bin& bin : slot_.bins) {
      for (uint32_t position : bin.positions) unused_.Insert(position);
      slot_.cost = std::max(slot_.cost, bin.cost);
    }
    for (const Bin& bin : slot_.bins) slot_.waste += slot_.cost - bin.cost;
    return std::move(slot_);
  }

  const Allowance& allowance_;
  IndexSet& unused_;
  Filling& filling_;
  const SortedTask& task_;
  SearchSteps search_;
  uint64_t& looks_;
  uint64_t spare_ = 0;  // items that the slot may use
  Slot slot_;
  uint64_t taken_ = 0;
};

}  // namespace

uint32_t FillHeadSlots(IndexSet& unused, Filling& filling, const Allowance& allowance) {
  return HeadFiller(allowance, unused, filling).Run();
}

}  // namespace batchplan
