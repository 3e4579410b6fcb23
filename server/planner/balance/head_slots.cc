#include "server/planner/balance/head_slots.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

namespace batchplan {
namespace {

// What a slot may waste, as a part of its cost, before other ways to fill it are tried.
constexpr uint64_t kTolerance = 10000;
constexpr uint64_t kQuantiles = 8;
// Unused items that are looked at where an item may be cheap and long at once.
constexpr int kMaxMisses = 32;
// Exchanges with unused items that bring a bin closer to its slot's cost.
constexpr int kMaxExchanges = 8;

struct Bin {
  std::vector<uint32_t> positions;
  uint64_t cost = 0;
  uint32_t room = 0;
  uint32_t sequences = 0;
};

struct Slot {
  std::vector<Bin> bins;
  uint64_t cost = 0;   // of the costliest bin
  uint64_t waste = 0;  // what all bins together stay below it
};

class HeadFiller {
 public:
  HeadFiller(IndexSet& unused, Filling& filling)
      : unused_(unused), filling_(filling), problem_(filling.problem()) {}

  uint32_t Run() {
    const uint32_t ranks = problem_.ranks;
    uint64_t left = problem_.total_cost;
    uint64_t unused = problem_.size();
    uint32_t filled = 0;
    for (; filled + 1 < problem_.slots; ++filled) {
      const uint64_t slots = problem_.slots - filled;
      const uint64_t reserve = (slots - 1) * ranks;
      if (unused < reserve + ranks) break;
      const uint64_t longest = problem_.cost[unused_.AtLeast(0)];
      if (longest <= left / (slots * ranks)) break;
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
    const size_t first =
        problem_.FirstWithin(longest, problem_.limits.capacity - problem_.length[seed]);
    for (uint64_t q = 0; q < kQuantiles; ++q) {
      const size_t position = unused_.AtLeast(first + (problem_.size() - first) * q / kQuantiles);
      if (position < problem_.size() && position != seed) {
        beside.push_back(static_cast<uint32_t>(position));
      }
    }
    for (uint32_t position : beside) {
      Keep(FillBesideSeeds(longest + problem_.cost[position]), best);
    }
    if (!IsGood(best)) Keep(FillTightest(longest), best);
    return best;
  }

  bool IsGood(const Slot& slot) const {
    return slot.waste <= slot.cost / kTolerance * problem_.ranks;
  }

  static void Keep(Slot slot, Slot& best) {
    if (slot.waste < best.waste) best = std::move(slot);
  }

  // One of the costliest items for each bin, and beside it what fits under `most` and the budget.
  Slot FillBesideSeeds(uint64_t most) {
    Open();
    for (Bin& bin : slot_.bins) Take(bin, static_cast<uint32_t>(unused_.AtLeast(0)));
    for (Bin& bin : slot_.bins) {
      while (spare_ > taken_.size()) {
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
    uint32_t empty = problem_.ranks;
    for (size_t position = 0; spare_ > taken_.size();) {
      uint64_t widest = 0;
      uint32_t roomiest = 0;
      uint32_t sequences = 0;
      for (const Bin& bin : slot_.bins) {
        widest = std::max(widest, most - bin.cost);
        roomiest = std::max(roomiest, bin.room);
        sequences = std::max(sequences, bin.sequences);
      }
      position = FindFitting(widest, roomiest, sequences, position);
      if (position == IndexSet::kNone) break;
      const auto item = static_cast<uint32_t>(position);
      Bin* tightest = nullptr;
      for (Bin& bin : slot_.bins) {
        const bool holds = problem_.cost[item] <= most - bin.cost &&
                           problem_.length[item] <= bin.room &&
                           problem_.count[item] <= bin.sequences;
        if (holds && (tightest == nullptr || bin.room < tightest->room)) tightest = &bin;
      }
      const bool opens = tightest != nullptr && tightest->positions.empty();
      if (tightest != nullptr && (opens || spare_ - taken_.size() > empty)) {
        empty -= opens;
        Take(*tightest, item);
      }
      ++position;
    }
    while (empty > 0) {
      const auto idle = std::find_if(slot_.bins.begin(), slot_.bins.end(),
                                     [](const Bin& bin) { return bin.positions.empty(); });
      Take(*idle, static_cast<uint32_t>(unused_.AtLeast(0)));
      --empty;
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
            FindFitting(most - bin.cost + problem_.cost[out], bin.room + problem_.length[out],
                        bin.sequences + problem_.count[out]);
        if (in == IndexSet::kNone || problem_.cost[in] <= problem_.cost[out] + best_gain) continue;
        best_gain = problem_.cost[in] - problem_.cost[out];
        best_out = m;
        best_in = static_cast<uint32_t>(in);
      }
      if (best_gain == 0) return;
      const uint32_t out = bin.positions[best_out];
      bin.positions.erase(bin.positions.begin() + static_cast<ptrdiff_t>(best_out));
      bin.cost -= problem_.cost[out];
      bin.room += problem_.length[out];
      bin.sequences += problem_.count[out];
      taken_.erase(std::find(taken_.begin(), taken_.end(), out));
      unused_.Insert(out);
      Take(bin, best_in);
    }
  }

  // The costliest unused item within these limits, at or after `from`.
  size_t FindFitting(uint64_t most_cost, uint32_t room, uint32_t sequences, size_t from = 0) const {
    size_t position = unused_.AtLeast(std::max(from, problem_.FirstWithin(most_cost, room)));
    for (int misses = 0; position < problem_.size(); ++misses) {
      if (problem_.length[position] <= room && problem_.count[position] <= sequences) {
        return position;
      }
      if (misses == kMaxMisses) break;
      position = unused_.AtLeast(position + 1);
    }
    return IndexSet::kNone;
  }

  void Open() {
    slot_ = Slot();
    slot_.bins.assign(problem_.ranks, Bin{.positions = {},
                                          .cost = 0,
                                          .room = problem_.limits.capacity,
                                          .sequences = problem_.limits.max_sequences});
    taken_.clear();
  }

  void Take(Bin& bin, uint32_t position) {
    unused_.Erase(position);
    taken_.push_back(position);
    bin.positions.push_back(position);
    bin.cost += problem_.cost[position];
    bin.room -= problem_.length[position];
    bin.sequences -= problem_.count[position];
  }

  // Puts everything back and tells what the slot would have wasted.
  Slot Close() {
    for (uint32_t position : taken_) unused_.Insert(position);
    for (const Bin& bin : slot_.bins) slot_.cost = std::max(slot_.cost, bin.cost);
    for (const Bin& bin : slot_.bins) slot_.waste += slot_.cost - bin.cost;
    return std::move(slot_);
  }

  IndexSet& unused_;
  Filling& filling_;
  const Problem& problem_;
  uint64_t spare_ = 0;  // items that the slot may use
  Slot slot_;
  std::vector<uint32_t> taken_;
};

}  // namespace

uint32_t FillHeadSlots(IndexSet& unused, Filling& filling) {
  return HeadFiller(unused, filling).Run();
}

}  // namespace batchplan
