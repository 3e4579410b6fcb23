// The costs and shared prefixes of a mini-batch's sequences, for searches that move them between
// rows.

#ifndef BATCHPLAN_SERVER_PLANNER_ROWS_ROW_ITEMS_H_
#define BATCHPLAN_SERVER_PLANNER_ROWS_ROW_ITEMS_H_

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "server/planner/pass/mini_batch_tree.h"
#include "server/planner/pass/pass.h"

namespace batchplan {

// c(x): the cost of the tokens up to depth x along one path, in units of the cost model. A branch
// of length L that shares its first s tokens costs c(L) - c(s).
struct PathCost {
  explicit PathCost(const Pass& pass);

  double operator()(uint32_t depth) const {
    const auto x = static_cast<double>(depth);
    const double attention = squared * x * x;
    const double exchanged = exchange * x;
    return linear * x + (overlaps ? std::max(attention, exchanged) : attention + exchanged);
  }

  double linear;
  double squared;
  double exchange;
  bool overlaps;
  double per_sequence;
  double per_microbatch;
};

// A quantity of rows that searches look at beside tokens and cost: a load that is limited, or has a
// phase of its own in which ranks wait for each other; or the number of sequences, if that must be
// a multiple.
struct SearchedLoad {
  // None: the number of sequences.
  std::optional<size_t> load;
  // Infinite without a limit.
  double most = 0;
  // In the units of PathCost; 0 without a phase.
  double per_unit = 0;
  // Divides the sum; 0: any sum is right.
  double multiple = 0;
  // Whether the items of a slot are dealt to its ranks: the phase then runs as long as the mean
  // rank or the largest item, whichever is longer.
  bool dealt = false;

  // By how much a sum is above the limit, or off the multiple, as fractions of these.
  double ExcessOf(double sum) const {
    double excess = sum > most ? sum / most - 1 : 0;
    if (multiple > 0) {
      const double rest = std::fmod(sum, multiple);
      excess += std::min(rest, multiple - rest) / multiple;
    }
    return excess;
  }
};

// The sums of the searched loads, in their order, and the largest item of each dealt one.
struct RowLoads {
  std::array<double, kMaxLoads + 1> sums = {};
  std::array<double, kMaxLoads + 1> largest = {};
};

// Items: each goes to one row whole, a leaf or, if groups stay in one micro-batch, a group, whose
// leaves then follow each other. Items are numbered in depth-first order.
//
// Sorted items i1 < i2 < ... of a row have tokens(i1) + tokens(i2) - Common(i1, i2) + ... tokens,
// and their costs add up, less c(Common(i1, i2)) and so on. So adding an item changes only the
// terms of its two neighbours.
class RowItems {
 public:
  // Nothing if other leaves lie between those of a group that stays together. Views the tree.
  static std::optional<RowItems> Create(const Pass& pass, const MiniBatchTree& tree);

  uint32_t size() const { return static_cast<uint32_t>(tokens_.size()); }
  const MiniBatchTree& tree() const { return *tree_; }
  const PathCost& path_cost() const { return path_cost_; }
  // The leaves of an item: first(i) .. first(i + 1) - 1.
  uint32_t first(uint32_t item) const { return first_[item]; }
  uint32_t count(uint32_t item) const { return first_[item + 1] - first_[item]; }
  uint64_t tokens(uint32_t item) const { return tokens_[item]; }
  double cost(uint32_t item) const { return costs_[item]; }
  // Whether the item exceeds a row's limit on a load, so that it runs alone.
  bool is_above_limits(uint32_t item) const { return !above_.empty() && above_[item]; }
  std::span<const SearchedLoad> searched_loads() const { return searched_; }
  // The item's searched loads, in their order.
  std::span<const double> loads(uint32_t item) const {
    return std::span(loads_).subspan(item * searched_.size(), searched_.size());
  }
  // Whether some searched loads are dealt; and of each dealt one, by its place among all, the
  // item's largest part.
  bool some_are_dealt() const { return !largest_.empty(); }
  std::span<const double> largest(uint32_t item) const {
    return std::span(largest_).subspan(item * searched_.size(), searched_.size());
  }
  // The tokens that items a < b have in common.
  uint32_t Common(uint32_t a, uint32_t b) const {
    return shares_ ? tree_->Common(first_[a + 1] - 1, first_[b]) : 0;
  }
  // Whether any two items have something in common.
  bool shares() const { return shares_; }

 private:
  RowItems(const Pass& pass, const MiniBatchTree& tree)
      : tree_(&tree), shares_(pass.prefixes() != nullptr), path_cost_(pass) {}

  void AddLoads(const Pass& pass);
  void AddLargest(const Pass& pass);

  const MiniBatchTree* tree_;
  bool shares_;
  PathCost path_cost_;
  std::vector<uint32_t> first_;
  std::vector<uint64_t> tokens_;
  std::vector<double> costs_;
  std::vector<SearchedLoad> searched_;
  std::vector<double> loads_;
  std::vector<double> largest_;
  std::vector<bool> above_;
};

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_ROWS_ROW_ITEMS_H_
