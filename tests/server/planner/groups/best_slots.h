// Solutions found by trying everything; the solver of context groups is tested against them.

#ifndef BATCHPLAN_TESTS_SERVER_PLANNER_GROUPS_BEST_SLOTS_H_
#define BATCHPLAN_TESTS_SERVER_PLANNER_GROUPS_BEST_SLOTS_H_

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "server/planner/pass/context_problem.h"

namespace batchplan::testing {

// The least lockstep time of any slots; none if no slots keep the limits. Tries all sets of items,
// so at most ten; shares no code with the solver.
class BestLockstep {
 public:
  explicit BestLockstep(const ContextProblem& problem)
      : problem_(problem), everything_((1u << problem.items()) - 1) {}

  std::optional<Cost> Time() {
    std::vector<Cost> slot(everything_ + 1);
    for (uint32_t set = 0; set <= everything_; ++set) {
      slot[set] = set == 0 && !problem_.allow_empty ? kNever : Slot(set, problem_.pool);
    }
    // Beyond one slot for each item and those that the rule asks for, slots are empty and do not
    // cost less.
    const uint64_t most = problem_.items() + problem_.slots.minimum + problem_.slots.multiple;
    Cost best = kNever;
    std::vector<Cost> times(everything_ + 1, kNever);
    times[0] = 0;
    for (uint64_t count = 1; count <= most; ++count) {
      std::vector<Cost> next(everything_ + 1, kNever);
      for (uint32_t set = 0; set <= everything_; ++set) {
        for (uint32_t part = set;; part = (part - 1) & set) {
          if (slot[part] != kNever && times[set ^ part] != kNever) {
            next[set] = std::min(next[set], times[set ^ part] + slot[part]);
          }
          if (part == 0) break;
        }
      }
      times = std::move(next);
      if (count >= problem_.slots.minimum && count % problem_.slots.multiple == 0) {
        best = std::min(best, times[everything_]);
      }
    }
    if (best == kNever) return std::nullopt;
    return best;
  }

 private:
  static constexpr Cost kNever = std::numeric_limits<Cost>::max();

  Cost Group(uint32_t set, const ContextSize& size) const {
    uint64_t tokens = 0;
    uint64_t sequences = 0;
    Cost cost = problem_.per_microbatch + size.whole_row;
    for (uint32_t item = 0; item < problem_.items(); ++item) {
      if ((set >> item & 1) == 0) continue;
      tokens += size.tokens[item];
      sequences += problem_.counts.empty() ? 1 : problem_.counts[item];
      cost += size.costs[item] - (size.own_tokens.empty() ? 0 : size.own_tokens[item]);
    }
    const bool fits = tokens <= size.capacity &&
                      (problem_.max_sequences == 0 || sequences <= problem_.max_sequences);
    return fits ? cost : kNever;
  }

  // The slowest group of a slot, if this many ranks are left for the set.
  Cost Slot(uint32_t set, uint32_t ranks) {
    if (ranks == 0) return set == 0 ? 0 : kNever;
    const auto known = slots_.find({set, ranks});
    if (known != slots_.end()) return known->second;
    Cost best = kNever;
    for (const ContextSize& size : problem_.sizes) {
      if (size.ranks > ranks) continue;
      if (problem_.allow_empty) {
        const Cost rest = Slot(set, ranks - size.ranks);
        if (rest != kNever) best = std::min(best, std::max(problem_.per_microbatch, rest));
      }
      for (uint32_t part = set; part != 0; part = (part - 1) & set) {
        const Cost group = Group(part, size);
        if (group >= best) continue;
        const Cost rest = Slot(set ^ part, ranks - size.ranks);
        if (rest != kNever) best = std::min(best, std::max(group, rest));
      }
    }
    slots_[{set, ranks}] = best;
    return best;
  }

  const ContextProblem& problem_;
  const uint32_t everything_;
  std::map<std::pair<uint32_t, uint32_t>, Cost> slots_;
};

// The least accumulated time of any slots without empty groups, for about four items and ranks.
class BestAccumulated {
 public:
  explicit BestAccumulated(const ContextProblem& problem)
      : problem_(problem), free_(problem.pool, 0) {}

  std::optional<Cost> Time() {
    Slots((1u << problem_.items()) - 1, 0);
    return best_;
  }

 private:
  void Slots(uint32_t left, uint64_t count) {
    if (left == 0) {
      if (count < problem_.slots.minimum || count % problem_.slots.multiple != 0) return;
      const Cost time = *std::max_element(free_.begin(), free_.end());
      best_ = std::min(best_.value_or(time), time);
      return;
    }
    Groups(left, count, 0, static_cast<uint32_t>(problem_.sizes.size()) - 1);
  }

  void Groups(uint32_t left, uint64_t count, uint32_t rank, uint32_t largest) {
    if (rank == problem_.pool) {
      Slots(left, count + 1);
      return;
    }
    for (uint32_t number = 0; number <= largest; ++number) {
      const ContextSize& size = problem_.sizes[number];
      if (rank + size.ranks > problem_.pool) continue;
      for (uint32_t part = left; part != 0; part = (part - 1) & left) {
        uint64_t tokens = 0;
        uint64_t sequences = 0;
        Cost cost = problem_.per_microbatch + size.whole_row;
        for (uint32_t item = 0; item < problem_.items(); ++item) {
          if ((part >> item & 1) == 0) continue;
          tokens += size.tokens[item];
          sequences += problem_.counts.empty() ? 1 : problem_.counts[item];
          cost += size.costs[item] - (size.own_tokens.empty() ? 0 : size.own_tokens[item]);
        }
        if (tokens > size.capacity) continue;
        if (problem_.max_sequences > 0 && sequences > problem_.max_sequences) continue;
        const std::vector<Cost> before = free_;
        const auto begin = free_.begin() + rank;
        const auto end = begin + size.ranks;
        std::fill(begin, end, *std::max_element(begin, end) + cost);
        Groups(left ^ part, count, rank + size.ranks, number);
        free_ = before;
      }
    }
  }

  const ContextProblem& problem_;
  std::vector<Cost> free_;
  std::optional<Cost> best_;
};

}  // namespace batchplan::testing

#endif  // BATCHPLAN_TESTS_SERVER_PLANNER_GROUPS_BEST_SLOTS_H_
