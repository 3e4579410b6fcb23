#include "server/planner/ranks/search_ranks.h"

#include <algorithm>

#include "server/planner/packing/even_counts.h"

namespace batchplan {
namespace {

// To place a unit is one step; to try a division, one for each sequence and rank.
constexpr uint64_t kMaxSteps = uint64_t{1} << 20;
constexpr uint64_t kTicksAStep = 10;

class Searcher {
 public:
  Searcher(std::span<const Units> mini_batches, const RankSearch& search)
      : mini_batches_(mini_batches), search_(search) {}

  std::optional<std::vector<std::vector<uint32_t>>> Run() {
    if (!Descend(0, 0, 0)) return std::nullopt;
    return rank_of_;
  }

 private:
  struct Rank {
    uint64_t sequences = 0;
    uint32_t units = 0;
  };

  // Gives ranks to the units from `unit` of mini-batch k on. Ranks from `used` on have no units
  // yet, in any mini-batch, and are interchangeable.
  bool Descend(size_t k, uint32_t unit, uint32_t used) {
    if (k == mini_batches_.size()) return true;
    const Units& units = mini_batches_[k];
    if (unit == 0) {
      rank_of_.resize(k + 1);
      rank_of_[k].clear();
      taken_.resize(k + 1);
      taken_[k].assign(search_.ranks, {});
    }
    if (unit == units.size()) return Complete(k, used);
    if (Shortfall(k) > units.size() - unit) return false;

    const uint32_t first = search_.contiguous && unit > 0 ? rank_of_[k].back() : 0;
    const uint32_t last = search_.contiguous ? search_.ranks : std::min(used + 1, search_.ranks);
    for (uint32_t rank = first; rank < last; ++rank) {
      ++steps_;
      search_.allowance.Spend(kTicksAStep);
      Rank& taken = taken_[k][rank];
      taken.sequences += units.counts[unit];
      ++taken.units;
      rank_of_[k].push_back(rank);
      if (!TooMany(units, taken) && Descend(k, unit + 1, std::max(used, rank + 1))) return true;
      if (steps_ >= kMaxSteps || search_.allowance.spent()) return false;
      rank_of_.resize(k + 1);
      rank_of_[k].resize(unit);
      taken_.resize(k + 1);
      taken_[k][rank].sequences -= units.counts[unit];
      --taken_[k][rank].units;
    }
    return false;
  }

  bool Complete(size_t k, uint32_t used) {
    if (search_.equal_counts) {
      const EvenCounts even(mini_batches_[k].total(), search_.ranks);
      for (const Rank& rank : taken_[k]) {
        if (!even.Allow(rank.sequences)) return false;
      }
    }
    steps_ += mini_batches_[k].total() + search_.ranks;
    if (search_.allowance.spent() || search_.allowance.stop_requested()) return false;
    return search_.accept(k, rank_of_[k]) && Descend(k + 1, 0, used);
  }

  bool TooMany(const Units& units, const Rank& rank) const {
    return search_.equal_counts && rank.sequences > EvenCounts(units.total(), search_.ranks).most();
  }

  // Units that ranks of mini-batch k still need.
  uint64_t Shortfall(size_t k) const {
    if (search_.least_units == 0) return 0;
    uint64_t needed = 0;
    for (const Rank& rank : taken_[k]) {
      if (rank.units < search_.least_units) needed += search_.least_units - rank.units;
    }
    return needed;
  }

  const std::span<const Units> mini_batches_;
  const RankSearch& search_;
  std::vector<std::vector<uint32_t>> rank_of_;
  std::vector<std::vector<Rank>> taken_;
  uint64_t steps_ = 0;
};

}  // namespace

std::optional<std::vector<std::vector<uint32_t>>> SearchRanks(std::span<const Units> mini_batches,
                                                              const RankSearch& search) {
  size_t units = 0;
  for (const Units& mini_batch : mini_batches) units += mini_batch.size();
  if (units > kMaxSearchedUnits) return std::nullopt;
  return Searcher(mini_batches, search).Run();
}

}  // namespace batchplan
