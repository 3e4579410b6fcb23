#include "server/planner/ranks/tree_bounds.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
#include <iterator>
#include <limits>
#include <numeric>
#include <set>
#include <utility>

#include "server/planner/packing/bins.h"
#include "server/planner/packing/lower_bounds.h"
#include "server/planner/packing/packer.h"

namespace batchplan {
namespace {

// The relative error of sums of doubles.
constexpr double kSumRounding = 1e-9;

// Fewer for large trees, whose trials are slow.
constexpr int kTrials = 40;
constexpr int kTrialsOfMany = 16;
constexpr size_t kMany = 16384;

double RoundUp(double value) { return std::ceil(value - std::max(value, 1.0) * kSumRounding); }

}  // namespace

TreeBounds::TreeBounds(const Pass& pass, std::span<const SequenceIndex> sequences)
    : pass_(pass), tree_(pass, sequences), subtrees_(tree_.commons()) {
  while (alone_ < tree_.size() && pass.RunsAlone(tree_[tree_.size() - 1 - alone_])) ++alone_;
  AddEdges();
  CountCopies();
}

// The cost of a path's tokens up to a depth. If attention may hide the exchange, without it, since
// plans that cut paths elsewhere may pay less of it.
double TreeBounds::CostTo(uint32_t depth) const {
  if (depth == 0) return 0;
  const CostFunction& cost = pass_.cost();
  const Cost of_one =
      cost.overlaps() ? cost.OfBranchComputation(depth, 0) : cost.OfBranch(depth, 0);
  return static_cast<double>(of_one - cost.OfBranchComputation(0, 0));
}

void TreeBounds::AddEdges() {
  const auto edge = [&](uint32_t from, uint32_t to) {
    return Edge{.from = from,
                .to = to,
                .tokens = static_cast<double>(to - from),
                .cost = CostTo(to) - CostTo(from)};
  };
  for (uint32_t node = 0; node < subtrees_.size(); ++node) {
    const uint32_t parent = subtrees_[node].parent;
    inner_.push_back(
        edge(parent == Subtrees::kNone ? 0 : subtrees_[parent].depth, subtrees_[node].depth));
  }
  const auto per_sequence = static_cast<double>(pass_.cost().OfBranchComputation(0, 0));
  for (uint32_t leaf = 0; leaf < tree_.size(); ++leaf) {
    const uint32_t after = leaf + 1 < tree_.size() ? tree_.common(leaf + 1) : 0;
    leaves_.push_back(edge(std::max(tree_.common(leaf), after), tree_.length(leaf)));
    leaves_.back().cost += per_sequence;
  }
}

void TreeBounds::CountCopies() {
  const double capacity = pass_.bin_limits().capacity;
  const double most = pass_.bin_limits().max_sequences;
  copies_.assign(subtrees_.size(), 1);
  // Tokens below each node, with copies.
  std::vector<double> below(subtrees_.size(), 0);
  std::vector<uint32_t> hanging;
  for (const uint32_t number : subtrees_.bottom_up()) {
    const Subtrees::Node& node = subtrees_[number];
    double copies = 1;
    hanging.clear();
    uint32_t child = node.first_child;
    for (uint32_t leaf = node.begin; leaf < node.end;) {
      if (child != Subtrees::kNone && leaf == subtrees_[child].begin) {
        below[number] += below[child] + copies_[child] * inner_[child].tokens;
        copies = std::max(copies, copies_[child]);
        leaf = subtrees_[child].end;
        child = subtrees_[child].next_sibling;
        continue;
      }
      if (leaf < tree_.size() - alone_) {
        below[number] += leaves_[leaf].tokens;
        if (leaves_[leaf].tokens > 0)
          hanging.push_back(static_cast<uint32_t>(leaves_[leaf].tokens));
      }
      ++leaf;
    }
    const double room = capacity - node.depth;
    if (below[number] > 0) copies = std::max(copies, RoundUp(below[number] / room));
    if (hanging.size() > 1) {
      const BinLimits limits = {.capacity = static_cast<uint32_t>(room)};
      const PackItems items = {.lengths = hanging};
      // No bound is above the bins of a packing, which are often as few as are known to be needed.
      const size_t enough = PackFirstFitDecreasing(items, limits).size();
      if (static_cast<double>(enough) > copies) {
        copies = std::max(copies, static_cast<double>(LowerBoundBins(items, limits, enough)));
      }
    }
    const double count = node.end - node.begin - (number == 0 ? alone_ : 0);
    copies_[number] = std::max(copies, RoundUp(count / most));
  }
}

uint64_t TreeBounds::FewestMicrobatches() const {
  // The root's copies are those of all rows.
  return (tree_.size() == alone_ ? 0 : static_cast<uint64_t>(copies_[0])) + alone_;
}

bool TreeBounds::IsTooShort(double time, uint32_t ranks) const {
  std::vector<double> copies(copies_.size());
  std::vector<double> below(copies_.size(), 0);
  for (const uint32_t number : subtrees_.bottom_up()) {
    const Subtrees::Node& node = subtrees_[number];
    copies[number] = copies_[number];
    uint32_t child = node.first_child;
    for (uint32_t leaf = node.begin; leaf < node.end;) {
      if (child != Subtrees::kNone && leaf == subtrees_[child].begin) {
        below[number] += below[child] + copies[child] * inner_[child].cost;
        copies[number] = std::max(copies[number], copies[child]);
        leaf = subtrees_[child].end;
        child = subtrees_[child].next_sibling;
      } else {
        below[number] += leaves_[leaf++].cost;
      }
    }
    if (node.depth == 0) continue;
    const double room = time - CostTo(node.depth);
    if (room <= 0) return true;
    copies[number] = std::max(copies[number], RoundUp(below[number] / room));
  }
  return below[0] > ranks * time * (1 + kSumRounding);
}

// Looks only at the rows of the slots that the longest sequences need.
double TreeBounds::HeadSlots(uint32_t ranks) const {
  const double capacity = pass_.bin_limits().capacity;
  const auto per_sequence = static_cast<double>(pass_.cost().OfBranchComputation(0, 0));
  // The most work in a number of tokens: that of the densest edges.
  std::vector<const Edge*> edges;
  double all = 0;
  for (const std::vector<Edge>* list : {&inner_, &leaves_}) {
    for (const Edge& edge : *list) {
      all += edge.cost;
      if (edge.cost > 0) edges.push_back(&edge);
    }
  }
  std::ranges::sort(edges, [](const Edge* a, const Edge* b) {
    return a->cost * b->tokens > b->cost * a->tokens;
  });
  std::vector<uint32_t> longest(tree_.size());
  std::iota(longest.begin(), longest.end(), 0u);
  std::ranges::stable_sort(longest, std::greater<>(),
                           [&](uint32_t leaf) { return tree_.length(leaf); });
  double best = all / ranks;
  double heads = 0;
  double held = 0;  // of the densest edges, whole
  double held_tokens = 0;
  size_t next_edge = 0;
  // The longest sequences so far, their tokens in one row, and the rows that they need.
  std::set<uint32_t> taken;
  double tokens = 0;
  double rows_alone = 0;
  double least_private = std::numeric_limits<double>::infinity();
  for (uint32_t m = 0, slots = 0; m < longest.size(); ++m) {
    const uint32_t leaf = longest[m];
    const double length = tree_.length(leaf);
    if (leaf >= tree_.size() - alone_) {
      ++rows_alone;
    } else {
      const auto after = taken.lower_bound(leaf);
      double joined = 0;
      if (after != taken.end()) joined = tree_.Common(leaf, *after);
      if (after != taken.begin()) {
        const double before = tree_.Common(*std::prev(after), leaf);
        const double around = after == taken.end() ? 0 : tree_.Common(*std::prev(after), *after);
        joined += before - around;
      }
      taken.insert(leaf);
      tokens += length - joined;
      least_private = std::min(least_private, leaves_[leaf].tokens);
    }
    // Whether no two of them fit one row: the shortest, and what another one does not share.
    const bool each_alone = length + least_private > capacity;
    const double rows = rows_alone + (each_alone ? static_cast<double>(taken.size())
                                                 : std::ceil(tokens / capacity));
    for (; rows > static_cast<double>(slots) * ranks; ++slots) {
      heads += CostTo(tree_.length(leaf)) + per_sequence;
      // The room of the slots so far; sequences that run alone come beside it.
      const double room = (slots + 1.0) * ranks * capacity;
      while (next_edge < edges.size() && held_tokens + edges[next_edge]->tokens <= room) {
        held += edges[next_edge]->cost;
        held_tokens += edges[next_edge++]->tokens;
      }
      double most = held;
      if (next_edge < edges.size()) {
        most += (room - held_tokens) / edges[next_edge]->tokens * edges[next_edge]->cost;
      }
      if (alone_ == 0) best = std::max(best, heads + (all - most) / ranks);
      best = std::max(best, heads);
    }
  }
  return best;
}

Cost TreeBounds::StepTime(uint32_t ranks, Synchronization synchronization) const {
  if (tree_.size() == 0) return 0;
  double low = 0;
  double high = 0;
  double longest = 0;
  for (uint32_t leaf = 0; leaf < tree_.size(); ++leaf) {
    const double whole =
        CostTo(tree_.length(leaf)) + static_cast<double>(pass_.cost().OfBranchComputation(0, 0));
    longest = std::max(longest, whole);
    high += whole;
    low += leaves_[leaf].cost;
  }
  for (const Edge& edge : inner_) low += edge.cost;
  low = std::max(longest, low / ranks);
  const int trials = tree_.size() > kMany ? kTrialsOfMany : kTrials;
  for (int i = 0; i < trials && high > low * (1 + kSumRounding); ++i) {
    // Mostly the bound is close.
    const double middle =
        i < 8 ? std::min(low * (1 + 0.002 * (1 << i)), (low + high) / 2) : (low + high) / 2;
    (IsTooShort(middle, ranks) ? low : high) = middle;
  }
  if (synchronization == Synchronization::kLockstep) low = std::max(low, HeadSlots(ranks));
  return static_cast<Cost>(low * (1 - kSumRounding));
}

}  // namespace batchplan
