// Depth-first search for slots that keep all limits, without regard to time.
//
// Each item in turn is tried in every group that some size still holds with it, and in a new group.
// A branch ends if the groups of a slot need more ranks than the pool has, or if fewer items are
// left than groups that must still be opened. The first complete division whose groups' sizes add
// up to the pool in every slot is the answer.

#include "server/planner/groups/place_few.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <utility>

namespace batchplan {
namespace {

constexpr uint64_t kTicksANode = 100;

class Placer {
 public:
  Placer(const ContextItems& all, uint64_t slots, uint64_t nodes, const Allowance& allowance)
      : all_(all),
        allowance_(allowance),
        steps_(allowance, nodes, kTicksANode, nodes),
        slots_(slots),
        fewest_groups_((all.problem().pool + all.ranks(all.sizes() - 1) - 1) /
                       all.ranks(all.sizes() - 1)) {}

  std::vector<FilledSlot> Run() {
    if (!Place(0)) return {};
    return std::move(result_);
  }

 private:
  // The items of a group, whatever its size.
  using Group = std::vector<uint32_t>;

  bool Fits(const Group& group, uint32_t size) const {
    FilledGroup filled;
    return Regroup(all_, group, size, filled);
  }
  bool FitsSomewhere(const Group& group) const {
    for (uint32_t size = 0; size < all_.sizes(); ++size) {
      if (Fits(group, size)) return true;
    }
    return false;
  }
  // The fewest ranks that the groups of a slot need.
  uint64_t Needs(const std::vector<Group>& slot) const {
    uint64_t ranks = 0;
    for (const Group& group : slot) {
      uint32_t size = 0;
      while (!Fits(group, size)) ++size;
      ranks += all_.ranks(size);
    }
    return ranks;
  }

  // Groups that must still be opened.
  uint64_t Missing() const {
    uint64_t missing = 0;
    for (const auto& slot : slots_) {
      missing += fewest_groups_ - std::min<uint64_t>(fewest_groups_, slot.size());
    }
    return missing;
  }

  bool Place(uint32_t item) {
    if (item == all_.size()) return Finish();
    if (Missing() > all_.size() - item) return false;
    bool tried_unused = false;
    for (size_t slot = 0; slot < slots_.size() && !tried_unused; ++slot) {
      tried_unused = slots_[slot].empty();
      for (size_t group = 0; group <= slots_[slot].size(); ++group) {
        if (steps_.left == 0 || allowance_.stop_requested()) return false;
        --steps_.left;
        const bool opens = group == slots_[slot].size();
        if (opens) slots_[slot].emplace_back();
        slots_[slot][group].push_back(item);
        if (FitsSomewhere(slots_[slot][group]) && Needs(slots_[slot]) <= all_.problem().pool &&
            Place(item + 1)) {
          return true;
        }
        slots_[slot][group].pop_back();
        if (opens) {
          slots_[slot].pop_back();
          break;
        }
      }
    }
    return false;
  }

  bool Finish() {
    result_.clear();
    for (const auto& slot : slots_) {
      FilledSlot filled;
      if (!Tile(slot, filled)) return false;
      result_.push_back(std::move(filled));
    }
    return true;
  }

  // Sizes for the groups of a slot that add up to the pool.
  bool Tile(const std::vector<Group>& slot, FilledSlot& filled) const {
    // sums[n]: by the total ranks of the first n groups, the size of the n-th.
    std::vector<std::map<uint64_t, uint32_t>> sums(slot.size() + 1);
    sums[0][0] = 0;
    for (size_t group = 0; group < slot.size(); ++group) {
      for (const auto& [sum, last] : sums[group]) {
        for (uint32_t size = 0; size < all_.sizes(); ++size) {
          const uint64_t with = sum + all_.ranks(size);
          if (with <= all_.problem().pool && Fits(slot[group], size)) {
            sums[group + 1].emplace(with, size);
          }
        }
      }
    }
    uint64_t sum = all_.problem().pool;
    if (!sums.back().contains(sum)) return false;
    for (size_t group = slot.size(); group-- > 0;) {
      const uint32_t size = sums[group + 1].at(sum);
      filled.emplace_back();
      Regroup(all_, slot[group], size, filled.back());
      sum -= all_.ranks(size);
    }
    return true;
  }

  const ContextItems& all_;
  const Allowance& allowance_;
  SearchSteps steps_;
  std::vector<std::vector<Group>> slots_;
  const uint64_t fewest_groups_;
  std::vector<FilledSlot> result_;
};

}  // namespace

std::vector<FilledSlot> PlaceFew(const ContextItems& all, uint64_t slots, uint64_t nodes,
                                 const Allowance& allowance) {
  if (slots > all.size()) return {};
  return Placer(all, slots, nodes, allowance).Run();
}

}  // namespace batchplan
