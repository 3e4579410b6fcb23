// A slot whose groups are being chosen, by the rule of Megatron-LM's scheduler.

#ifndef BATCHPLAN_SERVER_PLANNER_GROUPS_OPEN_SLOT_H_
#define BATCHPLAN_SERVER_PLANNER_GROUPS_OPEN_SLOT_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "server/planner/packing/index_set.h"
#include "server/planner/pass/context_problem.h"
#include "server/planner/request/allowance.h"

namespace batchplan {

struct OpenGroup {
  uint32_t size = 0;
  uint64_t tokens = 0;
  uint64_t sequences = 0;
  // The sum of L^2 / ranks.
  double work = 0;
  std::vector<uint32_t> items = {};
};

// Groups in the order of their ranks, of which the last `free` are in none.
struct OpenSlot {
  std::vector<OpenGroup> groups = {};
  uint32_t free = 0;
};

// Looks at items and groups, which are counted and spend from the allowance.
class Visits {
 public:
  // No end but that of the allowance.
  static constexpr uint64_t kOfAllowance = ~uint64_t{0};

  Visits(const Allowance& allowance, uint64_t most);

  // False once there are no more, or a stop is requested.
  bool Spend(uint64_t visits);

 private:
  const Allowance& allowance_;
  uint64_t left_;
  const bool ends_when_spent_;
  uint64_t since_look_;
  bool ended_ = false;
};

// What groups of a problem hold.
class GroupSizes {
 public:
  explicit GroupSizes(const ContextProblem& problem);

  size_t count() const { return problem_.sizes.size(); }
  uint32_t ranks(uint32_t size) const { return problem_.sizes[size].ranks; }
  // The sizes that are the smallest one times a power of two. Only the last may be none of them: a
  // pool that is not.
  uint32_t doublings() const { return doublings_; }
  double WorkOf(uint32_t size, uint32_t item) const;
  bool Holds(uint32_t size, uint32_t item) const;
  bool Holds(const OpenGroup& group, uint32_t item) const;
  // The least size that holds the item; some size does.
  uint32_t LeastOf(uint32_t item) const;
  void Put(uint32_t item, OpenGroup& group) const;
  OpenGroup GroupOf(uint32_t size, std::span<const uint32_t> items) const;
  // Whether the group's items fit that size too.
  bool FitsIn(const OpenGroup& group, uint32_t size) const;

 private:
  const ContextProblem& problem_;
  uint32_t doublings_;
};

// The items of a problem in descending length, equal ones in their order. Items that wait for a
// slot are a set of positions here.
class ByLength {
 public:
  explicit ByLength(const ContextProblem& problem);

  uint32_t operator[](size_t position) const { return items_[position]; }
  uint32_t PositionOf(uint32_t item) const { return positions_[item]; }
  // A position from `from` on before which no item has a place, as `has_place` says. Among items of
  // one sequence it is the first that has one, since all shorter ones then do too.
  template <typename HasPlace>
  size_t FirstWithPlace(size_t from, HasPlace has_place) const {
    if (!single_) return from;
    const auto first = items_.begin() + static_cast<ptrdiff_t>(from);
    return std::partition_point(first, items_.end(),
                                [&](uint32_t item) { return !has_place(item); }) -
           items_.begin();
  }

 private:
  const bool single_;
  std::vector<uint32_t> items_;
  std::vector<uint32_t> positions_;
};

// Fills a slot with waiting items, as megatron_slots.h describes. What the slot can't hold stays in
// `waiting`.
OpenSlot FillOpenSlot(const ContextProblem& problem, const GroupSizes& sizes,
                      const ByLength& by_length, IndexSet& waiting, Visits& visits);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_GROUPS_OPEN_SLOT_H_
