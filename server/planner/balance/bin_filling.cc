#include "server/planner/balance/bin_filling.h"

#include <algorithm>
#include <iterator>
#include <span>
#include <utility>

#include "absl/container/btree_set.h"
#include "server/planner/packing/kinds.h"

namespace batchplan {

SortedTask::SortedTask(const PackItems& items, const BinLimits& bin_limits, uint32_t rank_count,
                       uint32_t slot_count)
    : item(DecreasingOrder(items.lengths)),
      limits(bin_limits),
      ranks(rank_count),
      slots(slot_count) {
  length.resize(items.size());
  count.resize(items.size());
  cost.resize(items.size());
  for (size_t i = 0; i < item.size(); ++i) cost[i] = items.loads[item[i]];
  // Most often the longest is the costliest too, and lengths are quicker to sort.
  if (!std::is_sorted(cost.rbegin(), cost.rend())) {
    std::stable_sort(item.begin(), item.end(),
                     [&](uint32_t a, uint32_t b) { return items.loads[b] < items.loads[a]; });
    for (size_t i = 0; i < item.size(); ++i) cost[i] = items.loads[item[i]];
  }
  for (size_t i = 0; i < item.size(); ++i) {
    length[i] = items.lengths[item[i]];
    count[i] = items.count(item[i]);
    total_cost += cost[i];
    total_length += length[i];
  }
  lengths_descend = std::is_sorted(length.rbegin(), length.rend());
}

size_t SortedTask::FirstWithin(uint64_t most_cost, uint32_t most_length) const {
  const uint32_t most = lengths_descend ? most_length : std::numeric_limits<uint32_t>::max();
  size_t first = 0;
  for (size_t left = size(); left > 0;) {
    const size_t middle = first + left / 2;
    const bool is_above = cost[middle] > most_cost || length[middle] > most;
    first = is_above ? middle + 1 : first;
    left = is_above ? left - left / 2 - 1 : left / 2;
  }
  return first;
}

Filling::Filling(const SortedTask& task)
    : task_(&task),
      bins_(task.bins(), BinState::Empty(task.limits)),
      members_(task.bins()),
      bin_of_(task.size(), kUnplaced) {}

Filling::Filling(const SortedTask& task, const Bins& bins) : Filling(task) {
  std::vector<uint32_t> position_of(task.size());
  for (uint32_t i = 0; i < task.size(); ++i) position_of[task.item[i]] = i;
  for (uint32_t bin = 0; bin < bins.size(); ++bin) {
    std::vector<uint32_t>& members = members_[bin];
    members.reserve(bins[bin].size());
    for (const uint32_t item : bins[bin]) members.push_back(position_of[item]);
    std::sort(members.begin(), members.end());
    AddMembers(bin);
  }
}

Filling Filling::OfPositions(const SortedTask& task, const Bins& bins) {
  Filling filling(task);
  for (uint32_t bin = 0; bin < bins.size(); ++bin) {
    filling.members_[bin].assign(bins[bin].begin(), bins[bin].end());
    filling.AddMembers(bin);
  }
  return filling;
}

void Filling::AddMembers(uint32_t bin) {
  for (const uint32_t position : members_[bin]) {
    bin_of_[position] = bin;
    bins_[bin].Add(task_->SizeOf(position));
  }
}

void Filling::Place(uint32_t position, uint32_t bin) {
  std::vector<uint32_t>& members = members_[bin];
  if (members.empty() || members.back() < position) {
    members.push_back(position);
  } else {
    members.insert(std::upper_bound(members.begin(), members.end(), position), position);
  }
  bin_of_[position] = bin;
  bins_[bin].Add(task_->SizeOf(position));
}

void Filling::Remove(uint32_t position) {
  const uint32_t bin = bin_of_[position];
  std::vector<uint32_t>& members = members_[bin];
  members.erase(std::lower_bound(members.begin(), members.end(), position));
  bin_of_[position] = kUnplaced;
  bins_[bin].Remove(task_->SizeOf(position));
}

namespace {

constexpr uint64_t kTicksALeftOverStep = 2;
// The least steps for each left-over position, even if the allowance is spent.
constexpr uint64_t kLeastStepsEach = 16;
// The most bins that are asked to relieve an overfull one.
constexpr int kMaxRelievers = 400;

class OverflowMender {
 public:
  OverflowMender(uint32_t begin, uint32_t end, uint64_t& steps, Filling& filling)
      : task_(filling.task()), begin_(begin), end_(end), steps_(steps), filling_(filling) {}

  void Place(std::span<const uint32_t> positions) {
    Collect([&](uint32_t bin) { return filling_[bin].sequences > 0; });
    for (uint32_t position : positions) {
      const uint32_t bin = BinFor(position);
      rooms_.erase({filling_[bin].room, bin});
      filling_.Place(position, bin);
      if (filling_[bin].sequences > 0) rooms_.emplace(filling_[bin].room, bin);
    }
  }

  bool Run() {
    Collect([](uint32_t) { return true; });
    while (rooms_.begin()->first < 0) {
      if (!Relieve(rooms_.begin()->second)) return false;
    }
    for (const auto& [room, bin] : rooms_) {
      if (filling_[bin].IsOverfull()) return false;  // has too many sequences
    }
    return true;
  }

 private:
  // `out` leaves for `receiver`, and `in`, if any, comes back.
  struct Step {
    uint32_t out = 0;
    uint32_t in = Filling::kUnplaced;
    uint32_t receiver = 0;
    int64_t relief = 0;
  };

  template <typename Condition>
  void Collect(Condition condition) {
    rooms_.clear();
    for (uint32_t bin = begin_; bin < end_; ++bin) {
      if (condition(bin)) rooms_.emplace(filling_[bin].room, bin);
    }
  }

  // The bin for a left-over item, among those that may have one more sequence; any bin if there are
  // none.
  uint32_t BinFor(uint32_t position) {
    if (rooms_.empty()) return begin_;
    auto found = rooms_.lower_bound({task_.length[position], 0});
    while (found != rooms_.end() && !filling_.Holds(found->second, position)) {
      found = steps_ > 0 ? std::next(found) : rooms_.end();
      steps_ -= std::min<uint64_t>(steps_, 1);
    }
    return found != rooms_.end() ? found->second : rooms_.rbegin()->second;
  }

  template <typename Change>
  void Update(uint32_t bin, Change change) {
    rooms_.erase({filling_[bin].room, bin});
    change();
    rooms_.emplace(filling_[bin].room, bin);
  }

  bool Relieve(uint32_t bin) {
    const int64_t overflow = -filling_[bin].room;
    Step best;
    int receivers = 0;
    for (auto found = rooms_.rbegin(); found != rooms_.rend() && receivers < kMaxRelievers;
         ++found, ++receivers) {
      if (found->first <= 0) break;
      TryReceiver(bin, found->second, overflow, best);
      if (best.relief == overflow || steps_ == 0) break;
    }
    if (best.relief == 0) return false;
    Update(bin, [&] {
      Update(best.receiver, [&] {
        filling_.Move(best.out, best.receiver);
        if (best.in != Filling::kUnplaced) filling_.Move(best.in, bin);
      });
    });
    return true;
  }

  void TryReceiver(uint32_t bin, uint32_t receiver, int64_t overflow, Step& best) {
    const BinState& to = filling_[receiver];
    const BinState& from = filling_[bin];
    // No relief is above the receiver's room.
    if (to.room < overflow && to.room <= best.relief) {
      const uint64_t looks = filling_.Members(bin).size() * (1 + filling_.Members(receiver).size());
      steps_ -= std::min(steps_, looks);
      return;
    }
    for (uint32_t out : filling_.Members(bin)) {
      const ItemSize size = task_.SizeOf(out);
      if (steps_ == 0) return;
      steps_ -= std::min(steps_, 1 + filling_.Members(receiver).size());
      if (to.Holds(size) && filling_.Members(bin).size() > 1) {
        Consider({.out = out, .receiver = receiver, .relief = size.tokens}, overflow, best);
      }
      for (uint32_t in : filling_.Members(receiver)) {
        const ItemSize change = size - task_.SizeOf(in);
        if (change.tokens <= 0 || !to.Holds(change)) continue;
        if (-change.sequences > from.sequences) continue;
        Consider({.out = out, .in = in, .receiver = receiver, .relief = change.tokens}, overflow,
                 best);
      }
    }
  }

  // The smallest relief that cures, else the largest.
  static void Consider(const Step& step, int64_t overflow, Step& best) {
    const bool better = best.relief >= overflow
                            ? step.relief >= overflow && step.relief < best.relief
                            : step.relief > best.relief;
    if (better) best = step;
  }

  const SortedTask& task_;
  const uint32_t begin_;
  const uint32_t end_;
  uint64_t& steps_;
  Filling& filling_;
  absl::btree_set<std::pair<int64_t, uint32_t>> rooms_;  // (room, bin)
};

}  // namespace

bool PlaceLeftOver(std::span<const uint32_t> left_over, uint32_t begin, uint32_t end,
                   uint64_t steps, Filling& filling, const Allowance& allowance) {
  if (left_over.empty()) return true;
  SearchSteps search(allowance, steps, kTicksALeftOverStep, kLeastStepsEach * left_over.size());
  OverflowMender mender(begin, end, search.left, filling);
  mender.Place(left_over);
  return mender.Run();
}

}  // namespace batchplan
