#include "server/planner/split/delay.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <queue>
#include <utility>
#include <vector>

namespace batchplan {
namespace {

// The part of a window's time that moving sequences must save.
constexpr double kWorthMoving = 1e-3;
// The number of steps in which more and more of the long units come together.
constexpr size_t kShares = 7;

// A sequence or group, which moves whole.
struct Unit {
  std::vector<SequenceIndex> sequences;
  uint32_t longest = 0;
  size_t place = 0;  // its mini-batch in the window
};

class Window {
 public:
  Window(const SequenceLists& mini_batches, size_t first, size_t count, const Groups& groups,
         std::span<const uint32_t> lengths, bool any_size)
      : count_(count) {
    for (size_t m = 0; m < count; ++m) {
      const SequenceLists together = groups.Together(mini_batches[first + m]);
      for (size_t unit = 0; unit < together.size(); ++unit) {
        Unit& own = units_.emplace_back();
        own.sequences.assign(together[unit].begin(), together[unit].end());
        own.place = m;
        for (const SequenceIndex sequence : own.sequences) {
          own.longest = std::max(own.longest, lengths[sequence.value()]);
        }
        classes_[any_size ? 0 : own.sequences.size()].push_back(units_.size() - 1);
      }
    }
    for (auto& [size, units] : classes_) {
      std::ranges::stable_sort(units, std::greater<>(),
                               [&](size_t unit) { return units_[unit].longest; });
    }
  }

  // The mini-batch of each unit, before any moves.
  std::vector<size_t> Places() const {
    std::vector<size_t> places;
    for (const Unit& unit : units_) places.push_back(unit.place);
    return places;
  }

  // The mini-batch of each unit after the longest `share` / kShares of each class have filled one
  // mini-batch after the other, each in exchange for the shortest unit of its class there.
  std::vector<size_t> Gathered(size_t share) const {
    std::vector<size_t> places = Places();
    for (const auto& [size, units] : classes_) {
      std::vector<size_t> seats(count_, 0);
      // The units of each mini-batch, as positions in `units`, the shortest on top; some have left
      // since.
      std::vector<std::priority_queue<size_t>> standing(count_);
      for (size_t i = 0; i < units.size(); ++i) {
        const size_t place = units_[units[i]].place;
        ++seats[place];
        standing[place].push(i);
      }
      const size_t moved = units.size() * share / kShares;
      size_t to = 0;
      size_t filled = 0;
      for (size_t i = 0; i < moved; ++i) {
        while (to < count_ && filled == seats[to]) {
          ++to;
          filled = 0;
        }
        ++filled;
        const size_t from = places[units[i]];
        if (from == to) continue;
        // The shortest unit there. It is not a gathered one, as seats are left.
        size_t shortest = 0;
        do {
          shortest = standing[to].top();
          standing[to].pop();
        } while (places[units[shortest]] != to);
        std::swap(places[units[i]], places[units[shortest]]);
        standing[from].push(shortest);
      }
    }
    return places;
  }

  std::vector<std::vector<SequenceIndex>> MiniBatches(const std::vector<size_t>& places) const {
    std::vector<std::vector<SequenceIndex>> lists(count_);
    for (size_t unit = 0; unit < units_.size(); ++unit) {
      lists[places[unit]].insert(lists[places[unit]].end(), units_[unit].sequences.begin(),
                                 units_[unit].sequences.end());
    }
    for (std::vector<SequenceIndex>& list : lists) std::ranges::sort(list);
    return lists;
  }

 private:
  size_t count_;
  std::vector<Unit> units_;
  // Units that may change places, by number of sequences, or all as 0; the longest first.
  std::map<size_t, std::vector<size_t>> classes_;
};

}  // namespace

SequenceLists DelayLong(const SequenceLists& mini_batches, const Groups& groups,
                        std::span<const uint32_t> lengths, const DelayTerms& terms,
                        const StepTimeOf& time, const Allowance& allowance) {
  SequenceLists delayed;
  for (size_t first = 0; first < mini_batches.size();) {
    const size_t count = std::min<size_t>(mini_batches.size() - first, size_t{terms.max_delay} + 1);
    const Window window(mini_batches, first, count, groups, lengths, terms.any_size);
    const auto time_of = [&](const std::vector<std::vector<SequenceIndex>>& lists) {
      double sum = 0;
      for (const std::vector<SequenceIndex>& list : lists) sum += time(list);
      return sum;
    };
    std::vector<std::vector<SequenceIndex>> best = window.MiniBatches(window.Places());
    double least = time_of(best) * (1 - kWorthMoving);
    bool moves = false;
    for (size_t share = 1; count > 1 && share <= kShares; ++share) {
      if (allowance.spent() || allowance.stop_requested()) break;
      std::vector<std::vector<SequenceIndex>> lists = window.MiniBatches(window.Gathered(share));
      const double own = time_of(lists);
      if (own >= least) continue;
      // Further moves must save as much again.
      least = own * (1 - kWorthMoving);
      best = std::move(lists);
      moves = true;
    }
    for (size_t m = 0; m < count; ++m) {
      // In the order asked for if nothing moved.
      delayed.Push(moves ? std::span<const SequenceIndex>(best[m]) : mini_batches[first + m]);
      delayed.Close();
    }
    first += count;
  }
  return delayed;
}

}  // namespace batchplan
