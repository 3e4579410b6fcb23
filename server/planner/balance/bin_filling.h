// Micro-batches of a lockstep plan while they are being filled and improved, and the steps that do
// so. lockstep.h runs them in turn: the slots that long items dictate (FillHeadSlots), the rest by
// longest processing time first (longest_first.h), what found no room (PlaceLeftOver), and then a
// local search (EvenOut).
//
// The words of this folder, from the outside in:
//   item       what is placed as a whole, a sequence or several; its number is the caller's.
//   position   an item's place in the order of descending cost, 0 for the costliest.
//   cost       what an item adds to the time of its bin; the caller's PackItems call it the load.
//   class      items that are alike in length, cost and number of sequences (step_time_bound.h);
//              a kind (packing/kinds.h) is of one length and knows no cost.
//   bin        a micro-batch: items within a token budget and, maybe, a number of sequences.
//   slot       the bins with the same ordinal on all ranks, which run at the same time, so that all
//              of them take as long as the costliest.
//   step time  the sum over slots of the costliest bin.
//   room       tokens that a bin can still take.

#ifndef BATCHPLAN_SERVER_PLANNER_BALANCE_BIN_FILLING_H_
#define BATCHPLAN_SERVER_PLANNER_BALANCE_BIN_FILLING_H_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "server/planner/packing/bin_state.h"
#include "server/planner/packing/bins.h"
#include "server/planner/packing/index_set.h"
#include "server/planner/request/allowance.h"

namespace batchplan {

// What is to be placed, by position: items by descending cost, then length, of equal ones the
// higher number first. Where every item is one sequence the lengths descend as well.
struct SortedTask {
  SortedTask(const PackItems& items, const BinLimits& bin_limits, uint32_t rank_count,
             uint32_t slot_count);

  size_t size() const { return cost.size(); }
  uint32_t bins() const { return ranks * slots; }

  ItemSize SizeOf(uint32_t position) const {
    return ItemSize::Of(cost[position], length[position], count[position]);
  }

  // The first position from which on every item costs at most `most_cost` and, where lengths
  // descend, has at most `most_length` tokens.
  size_t FirstWithin(uint64_t most_cost, uint32_t most_length) const;

  std::vector<uint32_t> item;  // as the caller numbers them
  std::vector<uint32_t> length;
  std::vector<uint32_t> count;  // sequences
  std::vector<uint64_t> cost;
  bool lengths_descend = true;
  uint64_t total_cost = 0;
  uint64_t total_length = 0;
  BinLimits limits;
  uint32_t ranks;
  uint32_t slots;
};

// The bins of a task and the positions that each holds, costliest first. A bin may be overfull for
// a while: its room is negative then.
class Filling {
 public:
  static constexpr uint32_t kUnplaced = std::numeric_limits<uint32_t>::max();

  // Nothing is placed. The task must outlive the filling.
  explicit Filling(const SortedTask& task);
  // All items, as the caller numbers them, in these bins; the other bins are empty. Quicker than to
  // place them one by one.
  Filling(const SortedTask& task, const Bins& bins);
  // All positions, ascending in each bin.
  static Filling OfPositions(const SortedTask& task, const Bins& bins);

  const SortedTask& task() const { return *task_; }
  uint32_t bins() const { return static_cast<uint32_t>(bins_.size()); }
  const BinState& operator[](uint32_t bin) const { return bins_[bin]; }
  std::span<const uint32_t> Members(uint32_t bin) const { return members_[bin]; }
  uint32_t BinOf(uint32_t position) const { return bin_of_[position]; }
  std::span<const uint32_t> bin_of() const { return bin_of_; }

  bool Holds(uint32_t bin, uint32_t position) const {
    return bins_[bin].Holds(task_->SizeOf(position));
  }

  void Place(uint32_t position, uint32_t bin);
  void Remove(uint32_t position);
  void Move(uint32_t position, uint32_t bin) {
    Remove(position);
    Place(position, bin);
  }

 private:
  // Counts the members of an empty bin.
  void AddMembers(uint32_t bin);

  const SortedTask* task_;
  std::vector<BinState> bins_;
  std::vector<std::vector<uint32_t>> members_;
  std::vector<uint32_t> bin_of_;
};

// Fills the slots whose time one long item dictates. While the costliest unused item costs more
// than the mean of the bins still to be filled, its slot runs as long as this item. The other bins
// of the slot are filled as close to its cost as the token budget allows, so that little time is
// lost to waiting. Several ways to fill a slot are tried and the one that wastes least is kept.
// Takes the items out of `unused`, which holds all positions at first, and leaves enough of them
// for every later bin.
//
// Returns the number of slots filled, the bins [0, ranks * slots filled) of the empty `filling`.
// O(n log n). Once the allowance is spent or a stop requested, no further slot is begun.
uint32_t FillHeadSlots(IndexSet& unused, Filling& filling, const Allowance& allowance = {});

// Places items that found no room: each into the tightest of the bins [begin, end) that holds it,
// or else into the roomiest that may have one more sequence, which is then overfull. Moves and
// exchanges cure the overflow: the worst overfull bin gives to the bins with most room, by the
// smallest change that cures it, or else by the largest, so that the overflow falls with every
// step. False, with some bins overfull, if it gets stuck or has used up `steps`: items looked at,
// and bins that turned out short of sequences.
bool PlaceLeftOver(std::span<const uint32_t> left_over, uint32_t begin, uint32_t end,
                   uint64_t steps, Filling& filling, const Allowance& allowance = {});

// Which items may change their rank. Where ranks matter, bins r * slots .. (r + 1) * slots - 1 are
// those of rank r.
enum class RankRule {
  kFree,
  // Every rank keeps its number of sequences. If the ranks do not divide the total, a rank with one
  // more than another may give it one.
  kEqualCounts,
  // No item leaves its rank.
  kFixed,
};

struct EvenOutOptions {
  // Stop at this step time.
  uint64_t enough = 0;
  // Exchanges looked at.
  uint64_t steps = 0;
  // A bin at which this many givers find no exchange is left out until it changes.
  uint32_t patience = 4;
  // Whether one item may be exchanged for two, once nothing simpler helps.
  bool pairs = false;
  // Whether a slot whose costliest bin finds no exchange is left alone, once pairs are exchanged:
  // its other bins give nothing until they change.
  bool skip_stuck_slots = false;
  RankRule ranks = RankRule::kFree;
  // Once it is spent or a stop requested, the search ends early.
  Allowance allowance = {};
};

// Local search for the least step time: lowers the sum over slots of the costliest bin by moves and
// exchanges of items between bins, all of which stay within their limits and none of which becomes
// empty. Slots are the bins sorted by cost, all together or, if ranks matter, rank by rank. The
// target of a slot is its mean, or its costliest item if that is more. The bin furthest over its
// target exchanges with those furthest under theirs, so that both come closest to their targets.
// Slots are formed anew after each round, and the best filling met is kept. Returns its step time.
uint64_t EvenOut(const EvenOutOptions& options, Filling& filling);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_BALANCE_BIN_FILLING_H_
