#include "server/planner/balance/count_shares.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace batchplan {
namespace {

// The bins sorted by cost, `ranks` to a slot; within a slot the one with most sequences goes to the
// rank that has fewest.
std::vector<uint32_t> RankBins(const Filling& filling) {
  const uint32_t ranks = filling.problem().ranks;
  const uint32_t slots = filling.problem().slots;
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

class Mender {
 public:
  explicit Mender(Filling& filling)
      : filling_(filling),
        slots_(filling.problem().slots),
        wanted_(filling.problem().size() / filling.problem().ranks) {}

  bool Run() {
    const uint32_t ranks = filling_.problem().ranks;
    std::vector<size_t> counts(ranks, 0);
    for (uint32_t bin = 0; bin < filling_.bins(); ++bin) {
      counts[bin / slots_] += filling_.Members(bin).size();
    }
    uint32_t poor = 0;
    for (uint32_t rich = 0; rich < ranks; ++rich) {
      while (counts[rich] > wanted_) {
        while (counts[poor] >= wanted_) ++poor;
        if (!MoveOne(rich, poor)) return false;
        --counts[rich];
        ++counts[poor];
      }
    }
    return true;
  }

 private:
  // The cheapest item of one rank that finds room on the other, in the roomiest bin there that may
  // take one more.
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
  const size_t wanted_;
};

}  // namespace

std::optional<Filling> ShareCountsEqually(const Filling& filling) {
  const std::vector<uint32_t> place_of = RankBins(filling);
  Filling shared(filling.problem());
  for (uint32_t i = 0; i < filling.problem().size(); ++i) {
    shared.Place(i, place_of[filling.BinOf(i)]);
  }
  if (!Mender(shared).Run()) return std::nullopt;
  return shared;
}

}  // namespace batchplan
