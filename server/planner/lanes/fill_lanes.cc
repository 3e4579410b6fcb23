#include "server/planner/lanes/fill_lanes.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <queue>
#include <utility>
#include <vector>

#include "server/planner/packing/fewest_bins.h"
#include "server/planner/packing/orders.h"

namespace batchplan {
namespace {

// After this many bins that lack most but do not hold an item, it goes to the bin with most room.
constexpr size_t kMostPassedOver = 32;

// Gives each empty bin the cheapest item of its rank's bin with most items.
bool FillEmpty(const PipelineTask& task, uint32_t first_rank, uint32_t last_rank, Lanes& lanes) {
  for (uint32_t rank = first_rank; rank < last_rank; ++rank) {
    for (uint32_t slot = 0; slot < task.slots; ++slot) {
      const uint32_t empty = lanes.BinAt(rank, slot);
      if (!lanes.items_of(empty).empty()) continue;
      uint32_t fullest = lanes.BinAt(rank, 0);
      for (uint32_t other = 1; other < task.slots; ++other) {
        const uint32_t bin = lanes.BinAt(rank, other);
        if (lanes.items_of(bin).size() > lanes.items_of(fullest).size()) fullest = bin;
      }
      const std::vector<uint32_t>& items = lanes.items_of(fullest);
      if (items.size() < 2) return false;
      const auto cheapest = std::min_element(
          items.begin(), items.end(),
          [&](uint32_t a, uint32_t b) { return task.items.loads[a] < task.items.loads[b]; });
      lanes.Put(empty, lanes.Take(fullest, cheapest - items.begin()));
    }
  }
  return true;
}

// Fills the bins by their targets.
class Filler {
 public:
  Filler(const PipelineTask& task, const Targets& targets, Lanes& lanes)
      : task_(task),
        targets_(targets),
        lanes_(lanes),
        quota_(task.ranks, static_cast<int64_t>(task.equal_counts ? task.items.size() / task.ranks
                                                                  : task.items.size())),
        larger_(task.equal_counts ? task.items.size() % task.ranks : 0) {}

  bool Run(std::span<const uint32_t> descending) {
    std::vector<bool> placed(task_.items.size(), false);
    for (const auto& [item, bin] : targets_.placed) {
      if (!Holds(bin, item)) continue;
      Put(bin, item);
      placed[item] = true;
    }
    if (task_.rank_of.empty()) {
      return Fill(descending, placed, 0, task_.ranks) && FillEmpty(task_, 0, task_.ranks, lanes_);
    }
    const Bins shares(descending, RanksOf(descending), task_.ranks);
    for (uint32_t rank = 0; rank < task_.ranks; ++rank) {
      if (!Fill(shares[rank], placed, rank, rank + 1) || !FillEmpty(task_, rank, rank + 1, lanes_))
        return false;
    }
    return true;
  }

 private:
  // What a bin lacks of its target, and the bin.
  using Lack = std::pair<double, uint32_t>;
  // A bin's room in tokens, and the bin.
  using Room = std::pair<int64_t, uint32_t>;

  std::vector<uint32_t> RanksOf(std::span<const uint32_t> items) const {
    std::vector<uint32_t> ranks;
    for (const uint32_t item : items) ranks.push_back(task_.rank_of[item]);
    return ranks;
  }

  bool Holds(uint32_t bin, uint32_t item) const {
    return lanes_.Holds(bin, item) && MayTake(bin / task_.slots);
  }
  void Put(uint32_t bin, uint32_t item) {
    lanes_.Put(bin, item);
    int64_t& quota = quota_[bin / task_.slots];
    if (quota-- == 0) --larger_;
  }
  // Whether a rank may get a sequence: of its quota, or one more than others.
  bool MayTake(uint32_t rank) const {
    return quota_[rank] > 0 || (quota_[rank] == 0 && larger_ > 0);
  }

  double LackOf(uint32_t bin) const { return targets_.costs[bin] - lanes_.cost(bin); }
  // Whether a bin takes no item any more.
  bool IsFull(uint32_t bin) const {
    return lanes_[bin].sequences == 0 || !MayTake(bin / task_.slots);
  }

  // Puts each item into the bin of these ranks that lacks most and holds it; if that is a long
  // search, into the one with most room.
  bool Fill(std::span<const uint32_t> items, const std::vector<bool>& placed, uint32_t first_rank,
            uint32_t last_rank) {
    // Each bin has a current entry; outdated ones are skipped.
    std::priority_queue<Lack> lacking;
    std::priority_queue<Room> roomy;
    const auto enter = [&](uint32_t bin) {
      if (IsFull(bin)) return;
      lacking.emplace(LackOf(bin), bin);
      roomy.emplace(lanes_[bin].room, bin);
    };
    for (uint32_t bin = first_rank * task_.slots; bin < last_rank * task_.slots; ++bin) enter(bin);
    std::vector<Lack> passed_over;
    for (const uint32_t item : items) {
      if (placed[item]) continue;
      std::optional<uint32_t> to;
      while (!to && !lacking.empty() && passed_over.size() < kMostPassedOver) {
        const auto [lack, bin] = lacking.top();
        if (lack == LackOf(bin) && Holds(bin, item)) {
          to = bin;
          break;
        }
        if (lack == LackOf(bin) && !IsFull(bin)) passed_over.push_back(lacking.top());
        lacking.pop();
      }
      for (const Lack& one : passed_over) lacking.push(one);
      passed_over.clear();
      while (!to && !roomy.empty()) {
        const auto [tokens, bin] = roomy.top();
        if (tokens == lanes_[bin].room && !IsFull(bin)) {
          if (!Holds(bin, item)) return false;
          to = bin;
        }
        roomy.pop();
      }
      if (!to) return false;
      Put(*to, item);
      enter(*to);
    }
    return true;
  }

  const PipelineTask& task_;
  const Targets& targets_;
  Lanes& lanes_;
  std::vector<int64_t> quota_;  // sequences that each rank still needs
  uint64_t larger_;             // ranks that may still get one more
};

}  // namespace

bool FillByTargets(const PipelineTask& task, const Targets& targets,
                   std::span<const uint32_t> descending, Lanes& lanes) {
  return Filler(task, targets, lanes).Run(descending);
}

bool FillByPacking(const PipelineTask& task, const Targets& targets, Lanes& lanes) {
  if (!task.rank_of.empty() || task.equal_counts) return false;
  const uint32_t count = task.ranks * task.slots;
  const Bins bins = PackFewest(task.items, task.limits, count, Effort::kFast, task.allowance).bins;
  if (bins.size() > count) return false;
  std::vector<uint64_t> loads(bins.size(), 0);
  for (size_t bin = 0; bin < bins.size(); ++bin) {
    for (const uint32_t item : bins[bin]) loads[bin] += task.items.loads[item];
  }
  // The slots of a rank by their targets; in lockstep the same order on all ranks.
  std::vector<std::vector<uint32_t>> free(task.ranks);
  for (uint32_t rank = 0; rank < task.ranks; ++rank) {
    const auto own = std::span(targets.costs).subspan(size_t{rank} * task.slots, task.slots);
    free[rank].resize(task.slots);
    std::iota(free[rank].begin(), free[rank].end(), 0u);
    std::stable_sort(free[rank].begin(), free[rank].end(),
                     [&](uint32_t a, uint32_t b) { return own[a] < own[b]; });
  }
  std::vector<uint64_t> sums(task.ranks, 0);
  uint32_t dealt = 0;
  for (const uint32_t bin : DescendingOrder(loads)) {
    uint32_t to = dealt++ % task.ranks;
    if (!task.lockstep) {
      for (uint32_t rank = 0; rank < task.ranks; ++rank) {
        if (free[rank].empty()) continue;
        if (free[to].empty() || sums[rank] < sums[to]) to = rank;
      }
    }
    const uint32_t place = lanes.BinAt(to, free[to].back());
    free[to].pop_back();
    sums[to] += loads[bin];
    for (const uint32_t item : bins[bin]) lanes.Put(place, item);
  }
  return FillEmpty(task, 0, task.ranks, lanes);
}

}  // namespace batchplan
