#include "server/planner/groups/even_out_groups.h"

#include <algorithm>
#include <cstddef>
#include <span>
#include <utility>

#include "absl/container/btree_set.h"
#include "absl/numeric/int128.h"

namespace batchplan {
namespace {

// The most receivers tried for one giver.
constexpr int kMostReceivers = 48;
// If the best exchange breaks a limit, how many beside it are tried.
constexpr size_t kMostNeighbors = 3;
constexpr int kMostIdleRounds = 3;
// 1 / kNegligible of the time counts as nothing.
constexpr uint64_t kNegligible = 200000;
constexpr uint64_t kTicksAStep = 16;
constexpr size_t kNone = ~size_t{0};
// Pairs of groups of two parts that are looked at, and that suffice once an exchange is found.
constexpr int kMostPairs = 48;
constexpr int kEnoughPairs = 12;

// A group, or a rank with several groups, that has a target.
struct Part {
  Cost before = 0;
  Cost time = 0;  // of all
  int64_t target = 0;
  std::vector<FilledGroup*> groups = {};
};

class PartSearch {
 public:
  PartSearch(const ContextItems& all, uint64_t steps, const Allowance& allowance,
             std::vector<Part>& parts)
      : all_(all), allowance_(allowance), parts_(parts), steps_(allowance, steps, kTicksAStep) {
    for (Part& part : parts) {
      part.time = part.before;
      for (FilledGroup* group : part.groups) {
        part.time += group->time;
        std::sort(group->items.begin(), group->items.end());
      }
    }
  }

  // Sets the times of the parts after their groups have changed.
  void Renew() {
    for (Part& part : parts_) {
      part.time = part.before;
      for (const FilledGroup* group : part.groups) part.time += group->time;
    }
  }

  bool Ended() const { return steps_.left == 0 || allowance_.stop_requested(); }

  // Brings the parts closer to their targets. True if anything changed. Differences of up to
  // `tolerance` don't count.
  bool Round(int64_t tolerance) {
    tolerance_ = tolerance;
    givers_.clear();
    for (uint32_t part = 0; part < parts_.size(); ++part) givers_.emplace(Deviation(part), part);
    receivers_ = givers_;
    bool changed = false;
    while (!Ended() && !givers_.empty() && !receivers_.empty()) {
      const auto [over, giver] = *givers_.rbegin();
      if (over - receivers_.begin()->first <= tolerance_) break;
      if (Give(giver, over)) {
        changed = true;
      } else {
        givers_.erase({over, giver});
      }
    }
    return changed;
  }

 private:
  struct Exchange {
    FilledGroup* from = nullptr;
    FilledGroup* to = nullptr;
    size_t out = kNone;  // places
    size_t in = kNone;
    int64_t worst = 0;  // the larger deviation of the two then
  };

  int64_t Deviation(uint32_t part) const {
    return static_cast<int64_t>(parts_[part].time) - parts_[part].target;
  }

  bool Give(uint32_t giver, int64_t over) {
    int tried = 0;
    for (auto found = receivers_.begin(); found != receivers_.end() && tried < kMostReceivers;
         ++found, ++tried) {
      const auto [under, receiver] = *found;
      if (over - under <= tolerance_ || steps_.left == 0) return false;
      if (receiver == giver) continue;
      const Exchange exchange = Best(giver, receiver, over, under);
      if (exchange.from == nullptr || exchange.worst >= over - tolerance_ / 2) continue;
      Close(giver);
      Close(receiver);
      Apply(parts_[giver], parts_[receiver], exchange);
      Open(giver);
      Open(receiver);
      return true;
    }
    return false;
  }

  void Close(uint32_t part) {
    givers_.erase({Deviation(part), part});
    receivers_.erase({Deviation(part), part});
  }
  void Open(uint32_t part) {
    givers_.emplace(Deviation(part), part);
    receivers_.emplace(Deviation(part), part);
  }

  void Apply(Part& giver, Part& receiver, const Exchange& exchange) {
    FilledGroup& from = *exchange.from;
    FilledGroup& to = *exchange.to;
    giver.time -= from.time;
    receiver.time -= to.time;
    const uint32_t out = from.items[exchange.out];
    from.Erase(all_, exchange.out);
    if (exchange.in != kNone) {
      const uint32_t in = to.items[exchange.in];
      to.Erase(all_, exchange.in);
      from.Insert(all_, in);
    }
    to.Insert(all_, out);
    giver.time += from.time;
    receiver.time += to.time;
  }

  // The exchange that lowers the larger of the two deviations most.
  Exchange Best(uint32_t giver, uint32_t receiver, int64_t over, int64_t under) {
    Exchange best = {.worst = over};
    int pairs = 0;
    for (FilledGroup* from : parts_[giver].groups) {
      for (FilledGroup* to : parts_[receiver].groups) {
        TryPair(*from, *to, over, under, best);
        if (steps_.left == 0) return best;
        ++pairs;
        if (pairs >= (best.from != nullptr ? kEnoughPairs : kMostPairs)) return best;
      }
    }
    return best;
  }

  // An exchange narrows the gap between the two parts by the costs of its items in both sizes
  // together. Costs descend with positions, so the item wanted in return moves on with the one
  // given.
  void TryPair(FilledGroup& from, FilledGroup& to, int64_t over, int64_t under, Exchange& best) {
    const std::span<const Cost> from_costs = all_.costs(from.size);
    const std::span<const Cost> to_costs = all_.costs(to.size);
    const auto value = [&](uint32_t item) {
      return static_cast<int64_t>(from_costs[item] + to_costs[item]);
    };
    const int64_t gap = over - under;
    first_comes_ = to.items.empty() ? static_cast<int64_t>(all_.whole_row(to.size)) : 0;
    size_t middle = 0;
    for (size_t out = 0; out < from.items.size(); ++out) {
      const int64_t wanted = value(from.items[out]) - gap;
      if (from.items.size() > 1) Consider(from, to, out, kNone, over, under, best);
      while (middle < to.items.size() && value(to.items[middle]) > wanted) ++middle;
      const size_t end = std::min(to.items.size(), middle + kMostNeighbors);
      for (size_t in = middle - std::min(middle, kMostNeighbors); in < end; ++in) {
        Consider(from, to, out, in, over, under, best);
      }
      steps_.left -= std::min<uint64_t>(steps_.left, 2);
      if (steps_.left == 0) return;
    }
  }

  void Consider(FilledGroup& from, FilledGroup& to, size_t out, size_t in, int64_t over,
                int64_t under, Exchange& best) const {
    const uint32_t o = from.items[out];
    auto leaves = static_cast<int64_t>(all_.cost(from.size, o));
    auto comes = static_cast<int64_t>(all_.cost(to.size, o)) + first_comes_;
    if (in != kNone) {
      leaves -= static_cast<int64_t>(all_.cost(from.size, to.items[in]));
      comes -= static_cast<int64_t>(all_.cost(to.size, to.items[in]));
    }
    const int64_t worst = std::max(over - leaves, under + comes);
    if (worst >= best.worst || !KeepsLimits(from, to, out, in)) return;
    best = {.from = &from, .to = &to, .out = out, .in = in, .worst = worst};
  }

  bool KeepsLimits(const FilledGroup& from, const FilledGroup& to, size_t out, size_t in) const {
    const uint32_t o = from.items[out];
    uint64_t to_tokens = to.tokens + all_.tokens(to.size, o);
    uint64_t to_sequences = to.sequences + all_.sequences(o);
    if (in != kNone) {
      const uint32_t i = to.items[in];
      to_tokens -= all_.tokens(to.size, i);
      to_sequences -= all_.sequences(i);
      const uint64_t from_tokens =
          from.tokens + all_.tokens(from.size, i) - all_.tokens(from.size, o);
      const uint64_t from_sequences = from.sequences + all_.sequences(i) - all_.sequences(o);
      if (from_tokens > all_.capacity(from.size) || from_sequences > all_.max_sequences()) {
        return false;
      }
    }
    return to_tokens <= all_.capacity(to.size) && to_sequences <= all_.max_sequences();
  }

  const ContextItems& all_;
  const Allowance& allowance_;
  std::vector<Part>& parts_;
  SearchSteps steps_;
  absl::btree_set<std::pair<int64_t, uint32_t>> givers_;  // deviation, part
  absl::btree_set<std::pair<int64_t, uint32_t>> receivers_;
  int64_t tolerance_ = 0;
  // What the receiving group costs on top with its first item.
  int64_t first_comes_ = 0;
};

// The mean time of a slot's groups over the ranks, or its longest item alone if that is more.
Cost TargetOf(const ContextItems& all, const FilledSlot& slot) {
  absl::uint128 sum = 0;
  Cost longest = 0;
  for (const FilledGroup& group : slot) {
    sum += absl::uint128(group.time) * all.ranks(group.size);
    for (const uint32_t item : group.items) {
      longest = std::max(longest, all.Alone(group.size, item));
    }
  }
  return std::max(absl::Uint128Low64(sum / all.problem().pool), longest);
}

// Of each size the slowest groups go to the slowest slots. Slots keep their number of groups of
// each size.
void FormSlots(const ContextItems& all, std::vector<FilledSlot>& slots) {
  std::vector<std::pair<Cost, size_t>> by_time;
  for (size_t slot = 0; slot < slots.size(); ++slot) {
    by_time.emplace_back(SlowestTime(slots[slot]), slot);
  }
  std::sort(by_time.begin(), by_time.end(), [](const auto& a, const auto& b) {
    return std::pair(b.first, a.second) < std::pair(a.first, b.second);
  });
  std::vector<FilledGroup> groups;
  for (uint32_t size = 0; size < all.sizes(); ++size) {
    groups.clear();
    for (FilledSlot& slot : slots) {
      for (FilledGroup& group : slot) {
        if (group.size == size) groups.push_back(std::move(group));
      }
    }
    std::stable_sort(groups.begin(), groups.end(),
                     [](const FilledGroup& a, const FilledGroup& b) { return a.time > b.time; });
    size_t next = 0;
    for (const auto& [time, slot] : by_time) {
      for (FilledGroup& group : slots[slot]) {
        if (group.size == size) group = std::move(groups[next++]);
      }
    }
  }
}

}  // namespace

Cost LockstepTime(const ContextItems& all, const std::vector<FilledSlot>& slots) {
  Cost sum = slots.size() * all.problem().per_microbatch;
  for (const FilledSlot& slot : slots) sum += SlowestTime(slot);
  return sum;
}

Cost EvenOutGroups(const ContextItems& all, uint64_t steps, const Allowance& allowance,
                   std::vector<FilledSlot>& slots) {
  Cost best = LockstepTime(all, slots);
  std::vector<FilledSlot> kept = slots;
  std::vector<Part> parts;
  for (FilledSlot& slot : slots) {
    for (FilledGroup& group : slot) parts.push_back({.groups = {&group}});
  }
  PartSearch search(all, steps, allowance, parts);
  Cost last = best;
  for (int idle = 0; idle < kMostIdleRounds && !search.Ended();) {
    FormSlots(all, slots);
    search.Renew();
    auto part = parts.begin();
    for (const FilledSlot& slot : slots) {
      const auto target = static_cast<int64_t>(TargetOf(all, slot));
      for (size_t group = 0; group < slot.size(); ++group) (part++)->target = target;
    }
    const bool changed = search.Round(static_cast<int64_t>(last / slots.size() / kNegligible));
    const Cost time = LockstepTime(all, slots);
    idle = time < last && last - time > last / kNegligible ? 0 : idle + 1;
    last = time;
    if (time < best) {
      best = time;
      kept = slots;
    }
    if (!changed) break;
  }
  if (last != best) slots = std::move(kept);
  return best;
}

void EvenOutRanks(const ContextItems& all, uint64_t steps, const Allowance& allowance,
                  std::vector<RankGroups>& ranks) {
  absl::uint128 sum = 0;
  std::vector<Part> parts;
  for (RankGroups& rank : ranks) {
    parts.push_back({.before = rank.before, .groups = rank.groups});
    sum += rank.before;
    for (const FilledGroup* group : rank.groups) sum += group->time;
  }
  const Cost mean = absl::Uint128Low64(sum / ranks.size());
  for (Part& part : parts) part.target = static_cast<int64_t>(mean);
  PartSearch(all, steps, allowance, parts).Round(static_cast<int64_t>(mean / kNegligible));
}

}  // namespace batchplan
