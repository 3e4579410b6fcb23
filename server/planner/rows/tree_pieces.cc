#include "server/planner/rows/tree_pieces.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>

namespace batchplan {
namespace {

// Bisections to make runs even.
constexpr int kBisections = 12;

std::vector<uint32_t> CommonsOf(const RowItems& items) {
  std::vector<uint32_t> commons(items.size(), 0);
  for (uint32_t i = 1; i < items.size(); ++i) commons[i] = items.Common(i - 1, i);
  return commons;
}

}  // namespace

TreePieces::TreePieces(const RowItems& items)
    : items_(&items), commons_(CommonsOf(items)), subtrees_(commons_) {
  tokens_.reserve(items.size() + 1);
  costs_.reserve(items.size() + 1);
  for (uint32_t i = 0; i < items.size(); ++i) {
    tokens_.push_back(tokens_.back() + items.tokens(i) - commons_[i]);
    costs_.push_back(costs_.back() + items.cost(i) - items.path_cost()(commons_[i]));
  }
}

std::vector<TreePiece> TreePieces::Cut(const PieceLimits& limits) const {
  std::vector<TreePiece> pieces;
  std::vector<uint32_t> open = {0};
  while (!open.empty()) {
    const Subtrees::Node& subtree = subtrees_[open.back()];
    open.pop_back();
    const bool is_worth = IsWorth(subtree, limits.worth);
    if (is_worth && Fits(subtree.begin, subtree.end, limits)) {
      pieces.push_back({subtree.begin, subtree.end - subtree.begin});
    } else {
      CutNode(subtree, is_worth, limits, open, pieces);
    }
  }
  std::ranges::sort(pieces, {}, &TreePiece::first);
  return pieces;
}

bool TreePieces::CutUpTo(size_t count, std::vector<TreePiece>& pieces) const {
  std::set<std::pair<double, size_t>> by_cost;
  const auto enter = [&](size_t piece) {
    const auto [first, size] = pieces[piece];
    if (size > 1) by_cost.emplace(CostOf(first, first + size), piece);
  };
  for (size_t piece = 0; piece < pieces.size(); ++piece) enter(piece);
  while (pieces.size() < count) {
    if (by_cost.empty()) return false;
    const size_t costliest = std::prev(by_cost.end())->second;
    by_cost.erase(std::prev(by_cost.end()));
    const auto [begin, size] = pieces[costliest];
    const uint32_t end = begin + size;
    // The first cut whose first part costs at least as much as the second; or the one before.
    uint32_t cut = begin + 1;
    for (uint32_t last = end - 1; cut < last;) {
      const uint32_t middle = cut + (last - cut) / 2;
      if (CostOf(begin, middle) < CostOf(middle, end)) {
        cut = middle + 1;
      } else {
        last = middle;
      }
    }
    if (cut > begin + 1 && CostOf(cut - 1, end) < CostOf(begin, cut)) --cut;
    pieces[costliest].count = cut - begin;
    pieces.push_back({cut, end - cut});
    enter(costliest);
    enter(pieces.size() - 1);
  }
  return true;
}

bool TreePieces::IsWorth(const Subtrees::Node& node, double worth) const {
  if (node.depth == 0) return false;
  uint32_t branches = node.end - node.begin;
  for (uint32_t child = node.first_child; child != Subtrees::kNone;
       child = subtrees_[child].next_sibling) {
    branches -= subtrees_[child].end - subtrees_[child].begin - 1;
  }
  const double saved = items_->path_cost()(node.depth) * (branches - 1);
  return saved >= worth * CostOf(node.begin, node.end);
}

bool TreePieces::Fits(uint32_t begin, uint32_t end, const PieceLimits& limits) const {
  const uint64_t tokens = tokens_[end] - tokens_[begin] + commons_[begin];
  return tokens <= limits.tokens && items_->first(end) - items_->first(begin) <= limits.sequences &&
         CostOf(begin, end) <= limits.cost;
}

void TreePieces::CutNode(const Subtrees::Node& node, bool is_worth, const PieceLimits& limits,
                         std::vector<uint32_t>& open, std::vector<TreePiece>& pieces) const {
  std::vector<TreePiece> branches;
  uint32_t child = node.first_child;
  for (uint32_t item = node.begin; item < node.end;) {
    if (child == Subtrees::kNone || item < subtrees_[child].begin) {
      branches.push_back({item++, 1});
      continue;
    }
    const Subtrees::Node& branch = subtrees_[child];
    item = branch.end;
    if (is_worth && Fits(branch.begin, branch.end, limits)) {
      branches.push_back({branch.begin, branch.end - branch.begin});
    } else {
      open.push_back(child);
    }
    child = branch.next_sibling;
  }
  if (!is_worth) {
    pieces.insert(pieces.end(), branches.begin(), branches.end());
    return;
  }
  double high = CostOf(node.begin, node.end);
  const size_t fewest = RunsOf(branches, high, limits).size();
  double low = high / static_cast<double>(std::max<size_t>(fewest, 1));
  for (int i = 0; i < kBisections && fewest > 1; ++i) {
    const double middle = (low + high) / 2;
    (RunsOf(branches, middle, limits).size() > fewest ? low : high) = middle;
  }
  const std::vector<TreePiece> runs = RunsOf(branches, high, limits);
  pieces.insert(pieces.end(), runs.begin(), runs.end());
}

std::vector<TreePiece> TreePieces::RunsOf(std::span<const TreePiece> branches, double most,
                                          const PieceLimits& limits) const {
  std::vector<TreePiece> runs;
  for (const TreePiece& branch : branches) {
    const uint32_t end = branch.first + branch.count;
    if (!runs.empty()) {
      TreePiece& last = runs.back();
      if (last.first + last.count == branch.first && Fits(last.first, end, limits) &&
          CostOf(last.first, end) <= most) {
        last.count = end - last.first;
        continue;
      }
    }
    runs.push_back(branch);
  }
  return runs;
}

}  // namespace batchplan
