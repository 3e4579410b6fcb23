// What the search in lockstep finds before its effort matters. A mini-batch is planned at several
// efforts (efforts.h), each of which begins alike: the first keeps these for those that follow.

#ifndef BATCHPLAN_SERVER_PLANNER_BALANCE_LOCKSTEP_FINDINGS_H_
#define BATCHPLAN_SERVER_PLANNER_BALANCE_LOCKSTEP_FINDINGS_H_

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "server/planner/balance/bin_filling.h"
#include "server/planner/request/allowance.h"

namespace batchplan {

// A value that several searches need, with the ticks that it took. Those that find it here spend
// the ticks as well, so that no plan depends on what was kept.
template <typename Value>
class Finding {
 public:
  // The value kept, or else what find() returns. It is found anew unless both allowances have more
  // than enough for it: otherwise they decide what is found.
  template <typename Find>
  Value& Get(const Allowance& allowance, Find find) {
    if (is_whole_ && IsEnough(allowance.left())) {
      allowance.Spend(ticks_);
      return *value_;
    }
    const uint64_t before = allowance.used();
    const uint64_t left = allowance.left();
    value_.emplace(find());
    ticks_ = allowance.used() - before;
    // An earlier search may have wanted more; then too much is asked of those that follow.
    wanted_ = std::max(allowance.wanted(), before) - before;
    is_whole_ = IsEnough(left) && !allowance.stop_requested();
    return *value_;
  }

 private:
  // No step of a search takes so many ticks.
  static constexpr uint64_t kMargin = 64;

  bool IsEnough(uint64_t left) const { return left > kMargin && left - kMargin >= wanted_; }

  std::optional<Value> value_;
  uint64_t ticks_ = 0;
  // The ticks of all work that finding it wanted to do.
  uint64_t wanted_ = 0;
  bool is_whole_ = false;
};

// The bins before any item of them is exchanged.
struct LockstepStart {
  // The slots that long items dictate, and the items of the rest.
  Filling head;
  uint32_t head_slots = 0;
  std::vector<uint32_t> rest = {};
  // The bin of each item once the rest was filled in by cost alone.
  std::vector<uint32_t> bin_of = {};
  // The same with places for items that found no room; none if there are no places.
  std::optional<Filling> filling = {};
};

// Of one number of slots.
struct SlotsFindings {
  // The start views it.
  std::unique_ptr<const SortedTask> sorted;
  Finding<LockstepStart> start;
};

// Of the same items, limits and ranks.
struct LockstepFindings {
  Finding<uint64_t> fewest_slots;
  Finding<uint64_t> bound;
  std::map<uint32_t, SlotsFindings> by_slots;
};

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_BALANCE_LOCKSTEP_FINDINGS_H_
