// Random balancing tasks that have a solution; checks and step times of solutions.

#ifndef BATCHPLAN_TESTS_SERVER_PLANNER_BALANCE_INSTANCES_H_
#define BATCHPLAN_TESTS_SERVER_PLANNER_BALANCE_INSTANCES_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "server/planner/balance/bin_filling.h"
#include "server/planner/balance/rank_bins.h"
#include "server/planner/packing/bins.h"
#include "server/planner/packing/packer.h"
#include "tests/support/assignments.h"
#include "tests/support/generators.h"

namespace batchplan::testing {

struct BalanceInstance {
  std::vector<uint32_t> lengths = {};
  std::vector<uint32_t> counts = {};  // empty: single sequences
  std::vector<uint64_t> costs = {};
  BinLimits limits = {};
  uint32_t ranks = 1;
  uint32_t slots = 1;
  // A solution: exactly ranks * slots bins within the limits, none of them empty.
  Bins solution = {};

  PackItems items() const { return {.lengths = lengths, .counts = counts, .loads = costs}; }
  SortedTask task() const { return SortedTask(items(), limits, ranks, slots); }
  uint32_t bins() const { return ranks * slots; }
  // The rank of each item in `solution`.
  std::vector<uint32_t> SolutionRanks() const {
    std::vector<uint32_t> rank_of(lengths.size());
    for (uint32_t bin = 0; bin < bins(); ++bin) {
      for (uint32_t item : solution[bin]) rank_of[item] = bin / slots;
    }
    return rank_of;
  }
  std::string Describe() const {
    return absl::StrCat("lengths ", absl::StrJoin(lengths, ","), " counts ",
                        absl::StrJoin(counts, ","), " costs ", absl::StrJoin(costs, ","),
                        " capacity ", limits.capacity, " max_sequences ", limits.max_sequences,
                        " ranks ", ranks, " slots ", slots);
  }
};

// The lengths of items: any; all equal; one that fills a bin; halves of a bin; a long tail; bins
// cut into pieces that leave no room at all.
enum class Lengths { kAny, kEqual, kOneGiant, kHalves, kLongTail, kNoRoom };
// The costs of items: their tokens; more for long ones; anything, some 0; or all 0.
enum class Costs { kTokens, kConvex, kAny, kNothing };

inline std::vector<uint32_t> LengthsOf(Lengths kind, size_t size, uint32_t capacity,
                                       RandomStream& random) {
  std::vector<uint32_t> lengths;
  const auto between = [&](uint32_t low, uint32_t high) {
    low = std::clamp(low, 1u, capacity);
    return static_cast<uint32_t>(random.Between(low, std::clamp(high, low, capacity)));
  };
  const uint32_t same = between(1, capacity);
  while (lengths.size() < size) {
    switch (kind) {
      case Lengths::kAny:
        lengths.push_back(between(1, capacity));
        break;
      case Lengths::kEqual:
        lengths.push_back(same);
        break;
      case Lengths::kOneGiant:
        lengths.push_back(lengths.empty() ? capacity : between(1, capacity / 8));
        break;
      case Lengths::kHalves:
        lengths.push_back(between(capacity / 3, capacity * 2 / 3));
        break;
      case Lengths::kLongTail:
        lengths.push_back(between(1, between(1, between(1, capacity))));
        break;
      case Lengths::kNoRoom:
        for (uint32_t left = capacity; left > 0; left -= lengths.back()) {
          lengths.push_back(between(1, left));
        }
        break;
    }
  }
  return lengths;
}

inline uint64_t CostOf(Costs kind, uint64_t length, uint32_t capacity, RandomStream& random) {
  switch (kind) {
    case Costs::kTokens:
      return length;
    case Costs::kConvex:
      return capacity * length + length * length;
    case Costs::kAny:
      return random.Chance(30) ? 0 : random.Between(0, 1000);
    case Costs::kNothing:
      return 0;
  }
  return 0;
}

struct InstanceFamily {
  size_t least_items = 1;
  size_t most_items = 60;
  bool counts = true;
  // Whether ranks divide the items.
  bool equal_shares = false;
};

// An instance of any kind, with as few bins as best fit needs, or more, up to one for each item.
inline BalanceInstance RandomBalance(RandomStream& random, const InstanceFamily& family = {}) {
  BalanceInstance instance;
  BinLimits& limits = instance.limits;
  limits.capacity = random.OneOf<uint32_t>({10, 100, 5000, 65536});
  const auto lengths =
      random.OneOf<Lengths>({Lengths::kAny, Lengths::kEqual, Lengths::kOneGiant, Lengths::kHalves,
                             Lengths::kLongTail, Lengths::kNoRoom});
  const auto costs = random.OneOf<Costs>(
      {Costs::kTokens, Costs::kConvex, Costs::kConvex, Costs::kAny, Costs::kNothing});
  const size_t size = random.Between(family.least_items, family.most_items);
  instance.lengths = LengthsOf(lengths, size, limits.capacity, random);
  if (lengths == Lengths::kNoRoom && instance.lengths.size() > family.most_items) {
    instance.lengths.resize(family.most_items);
  }
  if (family.counts && random.Chance(30)) {
    for (uint32_t length : instance.lengths) {
      instance.counts.push_back(static_cast<uint32_t>(random.Between(1, std::min(length, 3u))));
    }
  }
  if (random.Chance(30)) limits.max_sequences = static_cast<uint32_t>(random.Between(3, 8));
  for (uint32_t length : instance.lengths) {
    instance.costs.push_back(CostOf(costs, length, limits.capacity, random));
  }

  const uint64_t count = instance.lengths.size();
  const Bins tight = Pack(Packer::kBestFitDecreasing, instance.items(), limits, 0);
  const uint64_t fewest = tight.size();
  instance.ranks = static_cast<uint32_t>(random.Between(1, std::min<uint64_t>(count, 8)));
  const auto slots = [&] { return (fewest + instance.ranks - 1) / instance.ranks; };
  while (slots() * instance.ranks > count || (family.equal_shares && count % instance.ranks != 0)) {
    --instance.ranks;
  }
  const uint64_t most = count / instance.ranks;
  const auto kind = random.Between(0, 9);
  instance.slots = static_cast<uint32_t>(kind < 6   ? slots()
                                         : kind < 9 ? std::min(slots() + 1, most)
                                                    : most);
  instance.solution = HalveLargest(instance.items(), tight, instance.bins());
  return instance;
}

// What is wrong with these bins; empty if nothing is.
inline std::string Fault(const BalanceInstance& instance, const Bins& bins) {
  if (bins.size() != instance.bins()) return absl::StrCat(bins.size(), " bins");
  std::vector<int> seen(instance.lengths.size(), 0);
  for (size_t bin = 0; bin < bins.size(); ++bin) {
    uint64_t tokens = 0;
    uint64_t sequences = 0;
    for (uint32_t item : bins[bin]) {
      tokens += instance.lengths[item];
      sequences += instance.items().count(item);
      ++seen[item];
    }
    if (bins[bin].empty()) return absl::StrCat("bin ", bin, " is empty");
    if (tokens > instance.limits.capacity) return absl::StrCat("bin ", bin, " has ", tokens);
    if (sequences > instance.limits.max_sequences) {
      return absl::StrCat("bin ", bin, " has ", sequences, " sequences");
    }
  }
  for (size_t item = 0; item < seen.size(); ++item) {
    if (seen[item] != 1) return absl::StrCat("item ", item, " is there ", seen[item], " times");
  }
  return "";
}

// The bins of the filling, with the caller's items.
inline Bins BinsOf(const Filling& filling) {
  Bins bins;
  for (uint32_t bin = 0; bin < filling.bins(); ++bin) {
    std::vector<uint32_t> items;
    for (uint32_t position : filling.Members(bin)) {
      items.push_back(filling.task().item[position]);
    }
    bins.Add(items);
  }
  return bins;
}

// `bins` as a filling with the same numbers of bins.
inline Filling FillingOf(const SortedTask& task, const Bins& bins) {
  std::vector<uint32_t> position_of(task.size());
  for (uint32_t i = 0; i < task.size(); ++i) position_of[task.item[i]] = i;
  Filling filling(task);
  for (uint32_t bin = 0; bin < bins.size(); ++bin) {
    for (uint32_t item : bins[bin]) filling.Place(position_of[item], bin);
  }
  return filling;
}

inline std::vector<uint64_t> BinCosts(const BalanceInstance& instance, const Bins& bins) {
  std::vector<uint64_t> costs;
  for (size_t bin = 0; bin < bins.size(); ++bin) {
    uint64_t cost = 0;
    for (uint32_t item : bins[bin]) cost += instance.costs[item];
    costs.push_back(cost);
  }
  return costs;
}

// The step time if slot s of rank r costs costs[r * slots + s].
inline uint64_t LockstepTime(std::span<const uint64_t> costs, uint32_t ranks) {
  const size_t slots = costs.size() / ranks;
  uint64_t time = 0;
  for (size_t slot = 0; slot < slots; ++slot) {
    uint64_t most = 0;
    for (size_t rank = 0; rank < ranks; ++rank) {
      most = std::max(most, costs[rank * slots + slot]);
    }
    time += most;
  }
  return time;
}

// The step time after sorting each rank's slots.
inline uint64_t SortedLockstepTime(std::vector<uint64_t> costs, uint32_t ranks) {
  const size_t slots = costs.size() / ranks;
  for (size_t rank = 0; rank < ranks; ++rank) {
    const auto own = std::span(costs).subspan(rank * slots, slots);
    std::sort(own.begin(), own.end(), std::greater<>());
  }
  return LockstepTime(costs, ranks);
}

// The step time after dealing the bins to ranks by cost.
inline uint64_t DealtLockstepTime(std::vector<uint64_t> costs, uint32_t ranks) {
  std::sort(costs.begin(), costs.end(), std::greater<>());
  uint64_t time = 0;
  for (size_t first = 0; first < costs.size(); first += ranks) time += costs[first];
  return time;
}

// The sequences of each rank.
inline std::vector<uint64_t> RankCounts(const BalanceInstance& instance, const Bins& bins) {
  std::vector<uint64_t> counts(instance.ranks, 0);
  for (size_t bin = 0; bin < bins.size(); ++bin) {
    for (uint32_t item : bins[bin]) counts[bin / instance.slots] += instance.items().count(item);
  }
  return counts;
}

// The least step time over all ways to fill bins that `legal` admits. O(bins^n).
inline uint64_t LeastStepTime(const BalanceInstance& instance,
                              const std::function<bool(const Bins&)>& legal) {
  std::vector<uint32_t> items(instance.lengths.size());
  for (uint32_t i = 0; i < items.size(); ++i) items[i] = i;
  uint64_t least = std::numeric_limits<uint64_t>::max();
  ForEachAssignment(items.size(), instance.bins(), [&](const std::vector<uint32_t>& bin_of) {
    const Bins bins(items, bin_of, instance.bins());
    const uint64_t time = SortedLockstepTime(BinCosts(instance, bins), instance.ranks);
    if (time < least && Fault(instance, bins).empty() && legal(bins)) least = time;
  });
  return least;
}

}  // namespace batchplan::testing

#endif  // BATCHPLAN_TESTS_SERVER_PLANNER_BALANCE_INSTANCES_H_
