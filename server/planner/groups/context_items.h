// The items of a context problem in the order in which they are placed.

#ifndef BATCHPLAN_SERVER_PLANNER_GROUPS_CONTEXT_ITEMS_H_
#define BATCHPLAN_SERVER_PLANNER_GROUPS_CONTEXT_ITEMS_H_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "absl/numeric/int128.h"
#include "server/planner/pass/context_problem.h"
#include "server/planner/request/allowance.h"

namespace batchplan {

// Items placed from one look for a stop to the next.
inline constexpr uint32_t kItemsPerLook = 16384;

// By position: descending by their cost in the smallest groups, equal ones by number. Words of this
// folder:
//   size       the number of a group size in problem.sizes, ascending.
//   time       what an item adds for each rank of its group, or what a group takes: its items and,
//              if it has any, ContextSize::whole_row.
//   rank-time  time times the ranks that it is taken of. Of an item, with its own tokens' part of a
//              whole row.
//   work       an item's least rank-time, of the sizes that it may have; in units of 2^shift, so
//              that sums stay below 2^60.
class ContextItems {
 public:
  // The problem must outlive the items. Once a stop is requested, no item counts as fitting.
  explicit ContextItems(const ContextProblem& problem, const Allowance& allowance = {});

  const ContextProblem& problem() const { return *problem_; }
  size_t size() const { return item_.size(); }
  uint32_t sizes() const { return static_cast<uint32_t>(costs_.size()); }
  uint32_t ranks(uint32_t size) const { return problem_->sizes[size].ranks; }
  uint64_t capacity(uint32_t size) const { return problem_->sizes[size].capacity; }
  uint64_t max_sequences() const { return max_sequences_; }

  uint32_t item(size_t position) const { return item_[position]; }
  Cost cost(uint32_t size, size_t position) const { return costs_[size][position]; }
  Cost whole_row(uint32_t size) const { return problem_->sizes[size].whole_row; }
  // The time of a group that has the item alone.
  Cost Alone(uint32_t size, size_t position) const {
    return whole_row(size) + costs_[size][position];
  }
  absl::uint128 RankTimeOf(uint32_t size, size_t position) const {
    const ContextSize& of_size = problem_->sizes[size];
    return absl::uint128(of_size.own_tokens.empty() ? costs_[size][position]
                                                    : of_size.costs[item_[position]]) *
           of_size.ranks;
  }
  std::span<const Cost> costs(uint32_t size) const { return costs_[size]; }
  uint32_t tokens(uint32_t size, size_t position) const { return tokens_[size][position]; }
  uint32_t sequences(size_t position) const { return count_.empty() ? 1 : count_[position]; }
  uint64_t work(size_t position) const { return work_[position]; }
  // In the units of work, at most 2^62.
  uint64_t RankTime(uint64_t ranks, Cost time) const;

  // Whether an item may be in a group of that size at all.
  bool MayTake(uint32_t size, size_t position) const {
    return tokens_[size][position] <= capacity(size) && sequences(position) <= max_sequences_;
  }
  // Whether every item fits some size.
  bool all_fit() const { return all_fit_; }

  // The size of least rank-time among those in which the item alone runs for at most `time`, the
  // smallest of equal ones; sizes() if there is none.
  uint32_t SizeWithin(size_t position, Cost time) const;

  // The first position >= `from` from which on every item adds at most `time` and `tokens` to
  // groups of that size. If items of more tokens may cost less (not descend()), only `time` counts.
  // size() or more if there is none.
  size_t FirstWithin(uint32_t size, Cost time, uint64_t tokens, size_t from) const;
  // Whether the items descend by tokens and costs in all sizes.
  bool descend() const { return descend_; }

 private:
  const ContextProblem* problem_;
  std::vector<uint32_t> item_;
  std::vector<std::vector<Cost>> costs_;
  std::vector<std::vector<uint32_t>> tokens_;
  std::vector<uint32_t> count_;
  std::vector<uint64_t> work_;
  // By position, whether rank-time never falls with the size.
  std::vector<bool> cheapest_first_;
  uint64_t max_sequences_ = 0;
  int shift_ = 0;
  bool all_fit_ = true;
  bool descend_ = true;
};

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_GROUPS_CONTEXT_ITEMS_H_
