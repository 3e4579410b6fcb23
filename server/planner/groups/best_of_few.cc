// Dynamic programming over sets of items, exact in lockstep.
//
// For every set and size: the time of one group. From these, for every set and number of ranks: the
// least time of groups on exactly that many ranks, adding one group at a time, the one with the
// set's lowest item. On the whole pool that is the time of a slot. For every set and number of
// slots the least sum follows in the same way. 3^n steps for n items and each rank and size, up to
// four million.

#include "server/planner/groups/best_of_few.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>

namespace batchplan {
namespace {

constexpr Cost kNoTime = std::numeric_limits<Cost>::max();
// The most looks at sets, ranks and sizes together.
constexpr uint64_t kMostTries = 4'000'000;
constexpr size_t kMostItems = 12;

class FewItems {
 public:
  // A set is a mask with a bit for each item.
  explicit FewItems(const ContextItems& all)
      : all_(all), pool_(all.problem().pool), sets_(1u << all.size()) {}

  static bool AreFew(const ContextItems& all) {
    if (all.size() > kMostItems) return false;
    uint64_t looks = uint64_t{all.problem().pool} * all.sizes();
    for (size_t item = 0; item < all.size(); ++item) looks *= 3;
    return looks <= kMostTries;
  }

  std::optional<std::vector<FilledSlot>> Run(const Allowance& allowance) {
    FindGroups();
    if (!FindSlots(allowance)) return std::nullopt;
    allowance.Spend(2 * looks_);
    return Collect();
  }

 private:
  // Visits the subsets of a set that have its lowest item, the whole set first.
  template <typename Visit>
  static void ForParts(uint32_t set, Visit visit) {
    const uint32_t lowest = set & (~set + 1);
    const uint32_t others = set ^ lowest;
    for (uint32_t part = others;; part = (part - 1) & others) {
      visit(part | lowest);
      if (part == 0) return;
    }
  }

  // The time of every set in a group of every size.
  void FindGroups() {
    groups_.assign(all_.sizes(), std::vector<Cost>(sets_, kNoTime));
    for (uint32_t size = 0; size < all_.sizes(); ++size) {
      for (uint32_t set = 1; set < sets_; ++set) {
        FilledGroup group = {.size = size};
        bool holds = true;
        for (uint32_t left = set; left != 0 && holds; left &= left - 1) {
          const auto item = static_cast<uint32_t>(std::countr_zero(left));
          holds = group.Holds(all_, item);
          group.Add(all_, item);
        }
        if (holds) groups_[size][set] = group.time;
      }
    }
  }

  Cost& TimeOn(uint32_t ranks, uint32_t set) { return times_[size_t{ranks} * sets_ + set]; }

  // By number of ranks, the least time of every set on the last ranks of a slot.
  bool FindSlots(const Allowance& allowance) {
    times_.assign((size_t{pool_} + 1) * sets_, kNoTime);
    TimeOn(0, 0) = 0;
    for (uint32_t ranks = 1; ranks <= pool_; ++ranks) {
      if (allowance.stop_requested()) return false;
      for (uint32_t set = 1; set < sets_; ++set) {
        Cost best = kNoTime;
        ForParts(set, [&](uint32_t part) {
          for (uint32_t size = 0; size < all_.sizes() && all_.ranks(size) <= ranks; ++size) {
            const Cost rest = TimeOn(ranks - all_.ranks(size), set ^ part);
            best = std::min(best, std::max(groups_[size][part], rest));
            ++looks_;
          }
        });
        TimeOn(ranks, set) = best;
      }
    }
    return true;
  }

  std::vector<FilledSlot> Collect() {
    // By the number of slots, the least time of every set.
    std::vector<std::vector<Cost>> sums = {std::vector<Cost>(sets_, kNoTime)};
    sums[0][0] = 0;
    const uint32_t everything = sets_ - 1;
    uint64_t best = 0;
    Cost least = kNoTime;
    for (uint64_t count = 1; count <= all_.size(); ++count) {
      std::vector<Cost>& sum = sums.emplace_back(sets_, kNoTime);
      for (uint32_t set = 1; set < sets_; ++set) {
        ForParts(set, [&](uint32_t part) {
          const Cost rest = sums[count - 1][set ^ part];
          const Cost own = TimeOn(pool_, part);
          if (own == kNoTime || rest == kNoTime) return;
          sum[set] = std::min(sum[set], own + rest + all_.problem().per_microbatch);
        });
      }
      if (all_.problem().slots.RoundUp(count) == count && sum[everything] < least) {
        least = sum[everything];
        best = count;
      }
    }
    std::vector<FilledSlot> slots;
    uint32_t set = everything;
    for (uint64_t count = best; count > 0; --count) {
      uint32_t found = 0;
      ForParts(set, [&](uint32_t part) {
        const Cost rest = sums[count - 1][set ^ part];
        const Cost own = TimeOn(pool_, part);
        if (own == kNoTime || rest == kNoTime) return;
        if (own + rest + all_.problem().per_microbatch == sums[count][set]) found = part;
      });
      slots.push_back(SlotOf(found));
      set ^= found;
    }
    return slots;
  }

  FilledSlot SlotOf(uint32_t set) {
    FilledSlot slot;
    for (uint32_t ranks = pool_; ranks > 0;) {
      uint32_t found = 0;
      uint32_t found_size = 0;
      ForParts(set, [&](uint32_t part) {
        for (uint32_t size = 0; size < all_.sizes() && all_.ranks(size) <= ranks; ++size) {
          const Cost rest = TimeOn(ranks - all_.ranks(size), set ^ part);
          if (found != 0 || std::max(groups_[size][part], rest) != TimeOn(ranks, set)) continue;
          found = part;
          found_size = size;
        }
      });
      FilledGroup& group = slot.emplace_back(FilledGroup{.size = found_size});
      for (uint32_t left = found; left != 0; left &= left - 1) {
        group.Add(all_, static_cast<uint32_t>(std::countr_zero(left)));
      }
      set ^= found;
      ranks -= all_.ranks(found_size);
    }
    return slot;
  }

  const ContextItems& all_;
  const uint32_t pool_;
  const uint32_t sets_;
  std::vector<std::vector<Cost>> groups_;  // by size and set
  std::vector<Cost> times_;
  uint64_t looks_ = 0;
};

}  // namespace

std::optional<std::vector<FilledSlot>> BestOfFew(const ContextItems& all,
                                                 const Allowance& allowance) {
  if (!FewItems::AreFew(all)) return std::nullopt;
  return FewItems(all).Run(allowance);
}

}  // namespace batchplan
