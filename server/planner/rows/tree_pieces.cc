#include "server/planner/rows/tree_pieces.h"

#include <algorithm>
#include <cstddef>
#include <span>
#include <utility>

#include "server/planner/pass/subtrees.h"

namespace batchplan {
namespace {

// Bisections to make runs even.
constexpr int kBisections = 12;

// The tokens and costs of runs of items in rows of their own.
class Runs {
 public:
  explicit Runs(const RowItems& items) : path_cost_(items.path_cost()) {
    for (uint32_t i = 0; i < items.size(); ++i) {
      const uint32_t common = i == 0 ? 0 : items.Common(i - 1, i);
      commons_.push_back(common);
      tokens_.push_back(tokens_.back() + items.tokens(i) - common);
      costs_.push_back(costs_.back() + items.cost(i) - path_cost_(common));
      counts_.push_back(counts_.back() + items.count(i));
    }
  }

  // The tokens that each item has in common with the one before.
  std::span<const uint32_t> commons() const { return commons_; }
  // The tokens of items begin .. end - 1.
  uint64_t tokens(uint32_t begin, uint32_t end) const {
    return tokens_[end] - tokens_[begin] + commons_[begin];
  }
  uint64_t count(uint32_t begin, uint32_t end) const { return counts_[end] - counts_[begin]; }
  double cost(uint32_t begin, uint32_t end) const {
    return costs_[end] - costs_[begin] + path_cost_(commons_[begin]);
  }

 private:
  const PathCost& path_cost_;
  std::vector<uint32_t> commons_;
  // Sums up to each item.
  std::vector<uint64_t> tokens_ = {0};
  std::vector<double> costs_ = {0};
  std::vector<uint64_t> counts_ = {0};
};

class PieceCutter {
 public:
  PieceCutter(const RowItems& items, const PieceLimits& limits)
      : items_(items), runs_(items), subtrees_(runs_.commons()), limits_(limits) {}

  std::vector<TreePiece> Cut() {
    std::vector<uint32_t> open = {0};
    while (!open.empty()) {
      const uint32_t node = open.back();
      open.pop_back();
      const Subtrees::Node& subtree = subtrees_[node];
      const bool is_worth = IsWorth(subtree);
      if (is_worth && Fits(subtree.begin, subtree.end)) {
        pieces_.push_back({subtree.begin, subtree.end - subtree.begin});
      } else {
        CutNode(subtree, is_worth, open);
      }
    }
    std::ranges::sort(pieces_, {}, &TreePiece::first);
    return std::move(pieces_);
  }

 private:
  bool IsWorth(const Subtrees::Node& node) const {
    if (node.depth == 0) return false;
    uint32_t branches = node.end - node.begin;
    for (uint32_t child = node.first_child; child != Subtrees::kNone;
         child = subtrees_[child].next_sibling) {
      branches -= subtrees_[child].end - subtrees_[child].begin - 1;
    }
    const double saved = items_.path_cost()(node.depth) * (branches - 1);
    return saved >= limits_.worth * runs_.cost(node.begin, node.end);
  }

  bool Fits(uint32_t begin, uint32_t end) const {
    return runs_.tokens(begin, end) <= limits_.tokens &&
           runs_.count(begin, end) <= limits_.sequences && runs_.cost(begin, end) <= limits_.cost;
  }

  // Joins branches that fit, if that is worth it, into as few runs as possible, of about the same
  // cost. Cuts branches that don't fit.
  void CutNode(const Subtrees::Node& node, bool is_worth, std::vector<uint32_t>& open) {
    std::vector<TreePiece> branches;
    uint32_t child = node.first_child;
    for (uint32_t item = node.begin; item < node.end;) {
      if (child == Subtrees::kNone || item < subtrees_[child].begin) {
        branches.push_back({item++, 1});
        continue;
      }
      const Subtrees::Node& branch = subtrees_[child];
      item = branch.end;
      if (is_worth && Fits(branch.begin, branch.end)) {
        branches.push_back({branch.begin, branch.end - branch.begin});
      } else {
        open.push_back(child);
      }
      child = branch.next_sibling;
    }
    if (!is_worth) {
      pieces_.insert(pieces_.end(), branches.begin(), branches.end());
      return;
    }
    double high = runs_.cost(node.begin, node.end);
    const size_t fewest = RunsOf(branches, high).size();
    double low = high / static_cast<double>(std::max<size_t>(fewest, 1));
    for (int i = 0; i < kBisections && fewest > 1; ++i) {
      const double middle = (low + high) / 2;
      (RunsOf(branches, middle).size() > fewest ? low : high) = middle;
    }
    const std::vector<TreePiece> runs = RunsOf(branches, high);
    pieces_.insert(pieces_.end(), runs.begin(), runs.end());
  }

  // Joins neighbouring branches into runs of at most `most` cost.
  std::vector<TreePiece> RunsOf(std::span<const TreePiece> branches, double most) const {
    std::vector<TreePiece> runs;
    for (const TreePiece& branch : branches) {
      const uint32_t end = branch.first + branch.count;
      if (!runs.empty()) {
        TreePiece& last = runs.back();
        if (last.first + last.count == branch.first && Fits(last.first, end) &&
            runs_.cost(last.first, end) <= most) {
          last.count = end - last.first;
          continue;
        }
      }
      runs.push_back(branch);
    }
    return runs;
  }

  const RowItems& items_;
  const Runs runs_;
  const Subtrees subtrees_;
  const PieceLimits limits_;
  std::vector<TreePiece> pieces_;
};

}  // namespace

std::vector<TreePiece> CutIntoPieces(const RowItems& items, const PieceLimits& limits) {
  return PieceCutter(items, limits).Cut();
}

}  // namespace batchplan
