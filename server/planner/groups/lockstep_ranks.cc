#include "server/planner/groups/lockstep_ranks.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <utility>

#include "absl/numeric/int128.h"
#include "server/planner/packing/index_set.h"
#include "server/planner/pass/context_time.h"
#include "server/planner/ranks/solve_lockstep.h"

namespace batchplan {
namespace {

// The smallest size, whose groups are the ranks here.
constexpr uint32_t kSmallest = 0;
// This many items must fit a rank for one that does not: with more long items, slots that mix sizes
// are better.
constexpr size_t kSmallForALarge = 32;
// The most items in a row that a large group does not hold.
constexpr int kMostMisses = 32;

bool IsSlower(const FilledGroup& a, const FilledGroup& b) { return a.time > b.time; }

// Items for SolveLockstep.
struct RankItems {
  std::vector<uint32_t> lengths = {};
  std::vector<uint32_t> counts = {};
  std::vector<Cost> costs = {};

  void Add(uint32_t length, uint32_t count, Cost cost) {
    lengths.push_back(length);
    counts.push_back(count);
    costs.push_back(cost);
  }
};

class RanksSolver {
 public:
  RanksSolver(const ContextItems& all, const Allowance& allowance)
      : all_(all),
        problem_(all.problem()),
        allowance_(allowance),
        ranks_(problem_.pool / all.ranks(kSmallest)) {
    for (uint32_t position = 0; position < all.size(); ++position) {
      if (all.MayTake(kSmallest, position)) {
        small_.push_back(position);
      } else {
        FilledGroup& group = large_.emplace_back(FilledGroup{.size = SmallestSizeOf(position)});
        group.Add(all, position);
      }
    }
  }

  std::vector<FilledSlot> Run(LargeGroups large) {
    if (problem_.pool % all_.ranks(kSmallest) != 0 ||
        large_.size() * kSmallForALarge > small_.size()) {
      return {};
    }
    // The stand-ins of large groups must not outnumber the items.
    uint64_t widths = 0;
    for (const FilledGroup& group : large_) widths += WidthOf(group);
    if (widths > small_.size()) return {};
    if (large == LargeGroups::kFilled) FillLarge();
    std::stable_sort(large_.begin(), large_.end(), IsSlower);
    const std::optional<RankItems> items = ItemsOfRanks();
    if (!items) return {};
    const std::optional<LockstepSlots> solved = SolveLockstep(
        {.items = {.lengths = items->lengths, .counts = items->counts, .loads = items->costs},
         .limits = Limits(),
         .ranks = ranks_,
         .counts = problem_.slots,
         .per_microbatch = problem_.per_microbatch + all_.whole_row(kSmallest),
         .effort = problem_.effort},
        allowance_);
    if (!solved) return {};
    std::vector<FilledGroup> groups;
    for (size_t bin = 0; bin < solved->bins.size(); ++bin) {
      FilledGroup group = {.size = kSmallest};
      for (const uint32_t item : solved->bins[bin]) {
        if (item < small_.size()) group.Add(all_, small_[item]);
      }
      if (!group.items.empty()) groups.push_back(std::move(group));
    }
    std::stable_sort(groups.begin(), groups.end(), IsSlower);
    return SlotsOf(std::move(groups), solved->slots);
  }

 private:
  uint32_t SmallestSizeOf(uint32_t position) const {
    uint32_t size = kSmallest;
    while (!all_.MayTake(size, position)) ++size;
    return size;
  }

  // The number of smallest groups whose place a group has.
  uint32_t WidthOf(const FilledGroup& group) const {
    return all_.ranks(group.size) / all_.ranks(kSmallest);
  }

  BinLimits Limits() const {
    BinLimits limits;
    limits.capacity = static_cast<uint32_t>(
        std::min<uint64_t>(all_.capacity(kSmallest), std::numeric_limits<uint32_t>::max()));
    if (problem_.max_sequences > 0) limits.max_sequences = problem_.max_sequences;
    return limits;
  }

  // Gives each large group the costliest items that it can still have. O(n log n).
  void FillLarge() {
    const Cost mean = MeanOfSlots();
    IndexSet left(all_.size());
    for (const uint32_t position : small_) left.Insert(position);
    for (FilledGroup& group : large_) {
      if (allowance_.stop_requested()) return;
      int misses = 0;
      for (size_t from = 0; group.time < mean && misses < kMostMisses; ++from) {
        const size_t first = all_.FirstWithin(group.size, mean - group.time,
                                              all_.capacity(group.size) - group.tokens, from);
        from = first >= all_.size() ? IndexSet::kNone : left.AtLeast(first);
        if (from == IndexSet::kNone) break;
        const auto position = static_cast<uint32_t>(from);
        if (!group.Holds(all_, position) || group.time + all_.cost(group.size, position) > mean) {
          ++misses;
          continue;
        }
        group.Add(all_, position);
        left.Erase(from);
      }
    }
    std::erase_if(small_, [&](uint32_t position) { return !left.Contains(position); });
  }

  // The time of each of the fewest slots if all ranks are busy.
  Cost MeanOfSlots() const {
    absl::uint128 rank_time = 0;
    for (const uint32_t position : small_) {
      rank_time += all_.RankTimeOf(kSmallest, position);
    }
    for (const FilledGroup& group : large_) {
      rank_time += absl::uint128(group.time) * all_.ranks(group.size);
    }
    return absl::Uint128Low64(rank_time / problem_.pool / FewestContextSlots(problem_));
  }

  // The small items, then the stand-ins of the large groups; none if their costs exceed what
  // SolveLockstep adds up.
  std::optional<RankItems> ItemsOfRanks() const {
    const absl::uint128 kMost = uint64_t{1} << 62;
    RankItems items;
    absl::uint128 total = 0;
    for (const uint32_t position : small_) {
      items.Add(all_.tokens(kSmallest, position), all_.sequences(position),
                all_.cost(kSmallest, position));
      total += items.costs.back();
    }
    for (const FilledGroup& group : large_) {
      // Beside the row of a smallest group.
      const Cost time = group.time - std::min(group.time, all_.whole_row(kSmallest));
      for (uint32_t i = 0; i < WidthOf(group); ++i) items.Add(Limits().capacity, 1, time);
      total += absl::uint128(time) * WidthOf(group);
    }
    if (total >= kMost) return std::nullopt;
    return items;
  }

  // Each slot in turn gets the slowest groups left. A large group that a slot has no room for goes
  // to the next.
  std::vector<FilledSlot> SlotsOf(std::vector<FilledGroup> groups, uint64_t slots) {
    std::vector<FilledSlot> result(slots);
    size_t next = 0;
    size_t next_large = 0;
    for (FilledSlot& slot : result) {
      for (uint32_t free = ranks_; free > 0;) {
        const bool has_small = next < groups.size();
        const bool has_large = next_large < large_.size() && WidthOf(large_[next_large]) <= free;
        if (has_large && (!has_small || large_[next_large].time >= groups[next].time)) {
          free -= WidthOf(large_[next_large]);
          slot.push_back(std::move(large_[next_large++]));
        } else if (has_small) {
          --free;
          slot.push_back(std::move(groups[next++]));
        } else {
          return {};
        }
      }
    }
    return result;
  }

  const ContextItems& all_;
  const ContextProblem& problem_;
  const Allowance& allowance_;
  const uint32_t ranks_;
  std::vector<uint32_t> small_;     // positions that fit a smallest group
  std::vector<FilledGroup> large_;  // one for each other item
};

}  // namespace

std::vector<FilledSlot> LockstepOnRanks(const ContextItems& all, LargeGroups large,
                                        const Allowance& allowance) {
  return RanksSolver(all, allowance).Run(large);
}

}  // namespace batchplan
