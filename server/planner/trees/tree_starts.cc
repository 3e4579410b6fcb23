#include "server/planner/trees/tree_starts.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <numeric>
#include <set>
#include <utility>

#include "server/planner/balance/accumulated.h"
#include "server/planner/balance/lockstep.h"
#include "server/planner/packing/fewest_bins.h"
#include "server/planner/packing/packer.h"
#include "server/planner/pass/items.h"
#include "server/planner/pass/subtrees.h"

namespace batchplan {
namespace {

constexpr uint32_t kNone = std::numeric_limits<uint32_t>::max();

// To make runs even.
constexpr int kBisections = 12;

// What runs of items take in rows of their own.
class Runs {
 public:
  explicit Runs(const TreeItems& items) : path_cost_(items.path_cost()) {
    for (uint32_t i = 0; i < items.size(); ++i) {
      const uint32_t common = i == 0 ? 0 : items.Common(i - 1, i);
      commons_.push_back(common);
      tokens_.push_back(tokens_.back() + items.tokens(i) - common);
      costs_.push_back(costs_.back() + items.cost(i) - path_cost_(common));
      counts_.push_back(counts_.back() + items.count(i));
    }
  }

  // Of each item and the one before.
  std::span<const uint32_t> commons() const { return commons_; }
  // Of items begin .. end - 1.
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
  // Up to each item.
  std::vector<uint64_t> tokens_ = {0};
  std::vector<double> costs_ = {0};
  std::vector<uint64_t> counts_ = {0};
};

class PieceCutter {
 public:
  PieceCutter(const TreeItems& items, const PieceLimits& limits)
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
    for (uint32_t child = node.first_child; child != kNone;
         child = subtrees_[child].next_sibling) {
      branches -= subtrees_[child].end - subtrees_[child].begin - 1;
    }
    const double saved = items_.path_cost()(node.depth) * (branches - 1);
    return saved >= limits_.worth * runs_.cost(node.begin, node.end);
  }

  bool Fits(uint32_t begin, uint32_t end) const {
    return runs_.tokens(begin, end) <= limits_.tokens &&
           runs_.count(begin, end) <= limits_.sequences &&
           runs_.cost(begin, end) <= limits_.cost;
  }

  // Branches that fit, joined where it is worth it into as few runs as that leaves, of about the same
  // cost; those that don't fit are cut themselves.
  void CutNode(const Subtrees::Node& node, bool is_worth, std::vector<uint32_t>& open) {
    std::vector<TreePiece> branches;
    uint32_t child = node.first_child;
    for (uint32_t item = node.begin; item < node.end;) {
      if (child == kNone || item < subtrees_[child].begin) {
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

  // Branches that follow each other in runs of at most this cost.
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

  const TreeItems& items_;
  const Runs runs_;
  const Subtrees subtrees_;
  const PieceLimits limits_;
  std::vector<TreePiece> pieces_;
};

// Pieces as what bins of items that share nothing are made of: all without what every item has in
// common, which each bin has once.
struct PackedPieces {
  PackedPieces(const Pass& pass, const TreeItems& all, std::span<const TreePiece> pieces) {
    const uint32_t common = all.size() == 1 ? 0 : all.Common(0, all.size() - 1);
    limits = {.capacity = pass.bin_limits().capacity - common,
              .max_sequences = pass.bin_limits().max_sequences};
    for (const TreePiece& piece : pieces) {
      std::vector<uint32_t> own(piece.count);
      std::iota(own.begin(), own.end(), piece.first);
      const TreeBin alone = BinOf(all, std::move(own));
      // What runs alone fills a bin.
      const uint64_t tokens = std::min<uint64_t>(alone.tokens - common, limits.capacity);
      items.lengths.push_back(static_cast<uint32_t>(std::max<uint64_t>(tokens, 1)));
      items.counts.push_back(alone.sequences);
      const double cost = std::max(0.0, alone.cost - all.path_cost()(common));
      items.costs.push_back(static_cast<uint64_t>(pass.cost().FromUnits(cost)));
    }
  }

  // Adds items that cost nothing and leave room beside them, for the solvers, which leave no bin
  // empty. False if lengths leave no place for them.
  bool FillUpTo(size_t count) {
    const uint64_t scale = std::min<uint64_t>(kMostFillers, kMostLength / limits.capacity);
    if (count - items.lengths.size() >= scale || limits.max_sequences < kMostFillers) return false;
    for (uint32_t& length : items.lengths) length *= static_cast<uint32_t>(scale);
    limits.capacity = static_cast<uint32_t>(limits.capacity * scale + scale - 1);
    items.lengths.resize(count, 1);
    items.counts.resize(count, 1);
    items.costs.resize(count, 0);
    return true;
  }

  Items items;
  BinLimits limits;

 private:
  static constexpr uint64_t kMostFillers = 4096;
  static constexpr uint64_t kMostLength = uint64_t{1} << 31;
};

// Bins that pieces are put into.
class PieceFiller {
 public:
  PieceFiller(const TreeItems& items, const TreeTerms& terms, std::span<const uint32_t> rank_of)
      : items_(items),
        terms_(terms),
        rank_of_(rank_of),
        bins_(size_t{terms.ranks} * terms.slots),
        sums_(terms.ranks, 0),
        bin_of_(items.size(), kNone) {
    for (uint32_t bin = 0; bin < bins_.size(); ++bin) Enter(bin);
  }

  bool Put(const TreePiece& piece) {
    std::vector<uint32_t> added(piece.count);
    std::iota(added.begin(), added.end(), piece.first);
    const TreeBin alone = BinOf(items_, added);
    const TreeChange of_piece = {.tokens = alone.tokens, .cost = alone.cost};
    uint32_t best = kNone;
    double least = 0;
    const auto look = [&](uint32_t bin) {
      if (bins_[bin].sequences + uint64_t{alone.sequences} > terms_.max_sequences) return false;
      const TreeChange change = ChangeBy(items_, bins_[bin], added, of_piece);
      const bool fits = bins_[bin].tokens + change.tokens <= terms_.capacity ||
                        (bins_[bin].items.empty() && piece.count == 1);
      if (!fits) return false;
      const double cost = (accumulates() ? sums_[RankOf(bin)] : bins_[bin].cost) + change.cost;
      if (best == kNone || cost < least) {
        best = bin;
        least = cost;
      }
      return true;
    };
    if (rank_of_.empty()) {
      for (const auto& [cost, bin] : by_cost_) {
        if (look(bin)) break;
      }
    } else {
      const uint32_t rank = rank_of_[piece.first];
      for (uint32_t slot = 0; slot < terms_.slots; ++slot) look(rank * terms_.slots + slot);
    }
    for (const uint32_t beside : {piece.first - 1, piece.first + piece.count}) {
      if (beside < items_.size() && bin_of_[beside] != kNone && rank_of_.empty()) {
        look(bin_of_[beside]);
      }
    }
    if (best == kNone) {
      if (piece.count == 1) return false;
      const uint32_t half = piece.count / 2;
      return Put({piece.first, half}) && Put({piece.first + half, piece.count - half});
    }
    Add(best, std::move(added));
    return true;
  }

  // Items for the bins that are still empty; false if there are none to give.
  bool FillEmpty() {
    for (uint32_t bin = 0; bin < bins_.size(); ++bin) {
      if (!bins_[bin].items.empty()) continue;
      uint32_t giver = kNone;
      const uint32_t begin = rank_of_.empty() ? 0 : RankOf(bin) * terms_.slots;
      const auto end = rank_of_.empty() ? static_cast<uint32_t>(bins_.size()) : begin + terms_.slots;
      for (uint32_t other = begin; other < end; ++other) {
        if (bins_[other].items.size() < 2) continue;
        if (giver == kNone || bins_[other].cost > bins_[giver].cost) giver = other;
      }
      if (giver == kNone) return false;
      std::vector<uint32_t> kept = bins_[giver].items;
      const uint32_t given = kept.back();
      kept.pop_back();
      bins_[giver] = BinOf(items_, std::move(kept));
      bins_[bin] = BinOf(items_, {given});
    }
    return true;
  }

  std::vector<TreeBin> Take() { return std::move(bins_); }

 private:
  bool accumulates() const { return terms_.synchronization == Synchronization::kAccumulated; }
  uint32_t RankOf(uint32_t bin) const { return bin / terms_.slots; }
  double KeyOf(uint32_t bin) const { return accumulates() ? sums_[RankOf(bin)] : bins_[bin].cost; }
  void Enter(uint32_t bin) {
    if (rank_of_.empty()) by_cost_.emplace(KeyOf(bin), bin);
  }
  void Leave(uint32_t bin) {
    if (rank_of_.empty()) by_cost_.erase({KeyOf(bin), bin});
  }

  void Add(uint32_t bin, std::vector<uint32_t> added) {
    const uint32_t first = accumulates() ? RankOf(bin) * terms_.slots : bin;
    const uint32_t end = accumulates() ? first + terms_.slots : bin + 1;
    for (uint32_t other = first; other < end; ++other) Leave(other);
    for (const uint32_t item : added) bin_of_[item] = bin;
    std::vector<uint32_t> all = bins_[bin].items;
    const auto middle = static_cast<ptrdiff_t>(all.size());
    all.insert(all.end(), added.begin(), added.end());
    std::inplace_merge(all.begin(), all.begin() + middle, all.end());
    const double before = bins_[bin].cost;
    bins_[bin] = BinOf(items_, std::move(all));
    sums_[RankOf(bin)] += bins_[bin].cost - before;
    for (uint32_t other = first; other < end; ++other) Enter(other);
  }

  const TreeItems& items_;
  const TreeTerms& terms_;
  const std::span<const uint32_t> rank_of_;
  std::vector<TreeBin> bins_;
  std::vector<double> sums_;
  std::vector<uint32_t> bin_of_;
  std::set<std::pair<double, uint32_t>> by_cost_;
};

}  // namespace

std::vector<TreePiece> CutIntoPieces(const TreeItems& items, const PieceLimits& limits) {
  return PieceCutter(items, limits).Cut();
}

uint64_t SlotsOf(const Pass& pass, const TreeItems& items, std::span<const TreePiece> pieces) {
  const PackedPieces packed(pass, items, pieces);
  const size_t bins = PackBestFitDecreasing(packed.items.ForPacking(), packed.limits).size();
  return pass.counts().RoundUp((bins + pass.ranks() - 1) / pass.ranks());
}

std::optional<std::vector<TreeBin>> BalancePieces(const Pass& pass, const TreeItems& items,
                                                  const TreeTerms& terms,
                                                  std::span<const TreePiece> pieces,
                                                  const Allowance& allowance) {
  const size_t count = size_t{terms.ranks} * terms.slots;
  if (pieces.size() < count && !terms.may_empty) return std::nullopt;
  PackedPieces of_pieces(pass, items, pieces);
  if (pieces.size() < count && !of_pieces.FillUpTo(count)) return std::nullopt;
  const BinLimits& limits = of_pieces.limits;
  const PackItems packed = of_pieces.items.ForPacking();
  Bins bins;
  if (terms.synchronization == Synchronization::kLockstep) {
    std::optional<BalancedBins> balanced = BalanceLockstep({.items = packed,
                                                            .limits = limits,
                                                            .ranks = terms.ranks,
                                                            .slots = terms.slots,
                                                            .rank_of = {},
                                                            .effort = pass.effort(),
                                                            .allowance = allowance});
    if (!balanced) return std::nullopt;
    bins = std::move(balanced->bins);
  } else {
    std::optional<Bins> start = PackInto(packed, limits, count, Effort::kFast, allowance);
    if (!start) return std::nullopt;
    bins = BalanceAccumulated(packed, limits, terms.ranks, terms.slots, *start, pass.effort(),
                              allowance);
  }
  std::vector<TreeBin> result;
  for (size_t bin = 0; bin < bins.size(); ++bin) {
    std::vector<uint32_t> own;
    for (const uint32_t piece : bins[bin]) {
      if (piece >= pieces.size()) continue;
      for (uint32_t i = 0; i < pieces[piece].count; ++i) own.push_back(pieces[piece].first + i);
    }
    std::ranges::sort(own);
    result.push_back(BinOf(items, std::move(own)));
  }
  return result;
}

std::optional<std::vector<TreeBin>> FillWithPieces(const TreeItems& items, const TreeTerms& terms,
                                                   std::span<const TreePiece> pieces,
                                                   std::span<const uint32_t> rank_of,
                                                   bool allow_empty) {
  // Where ranks are given, pieces end where the rank does.
  std::vector<std::pair<double, TreePiece>> by_cost;
  for (const TreePiece& piece : pieces) {
    for (uint32_t first = piece.first; first < piece.first + piece.count;) {
      uint32_t end = first + 1;
      while (end < piece.first + piece.count && (rank_of.empty() || rank_of[end] == rank_of[first])) {
        ++end;
      }
      std::vector<uint32_t> own(end - first);
      std::iota(own.begin(), own.end(), first);
      by_cost.emplace_back(-BinOf(items, std::move(own)).cost, TreePiece{first, end - first});
      first = end;
    }
  }
  std::ranges::stable_sort(by_cost, {}, &std::pair<double, TreePiece>::first);
  PieceFiller filler(items, terms, rank_of);
  for (const auto& [cost, piece] : by_cost) {
    if (!filler.Put(piece)) return std::nullopt;
  }
  if (!allow_empty && !filler.FillEmpty()) return std::nullopt;
  return filler.Take();
}

std::optional<std::vector<TreeBin>> CutIntoRuns(const TreeItems& items, const TreeTerms& terms) {
  const size_t bins = size_t{terms.ranks} * terms.slots;
  if (items.size() < bins) return std::nullopt;
  std::vector<uint32_t> ends;
  // The fewest runs of at most this cost.
  const auto cut = [&](double most) {
    ends.clear();
    uint64_t tokens = 0;
    uint64_t sequences = 0;
    double cost = 0;
    for (uint32_t item = 0; item < items.size(); ++item) {
      const uint32_t common = item == 0 ? 0 : items.Common(item - 1, item);
      const bool ends_here =
          sequences > 0 && (tokens + items.tokens(item) - common > terms.capacity ||
                            sequences + items.count(item) > terms.max_sequences ||
                            cost + items.cost(item) - items.path_cost()(common) > most);
      if (ends_here) {
        ends.push_back(item);
        tokens = sequences = 0;
        cost = 0;
      }
      const bool begins = sequences == 0;
      tokens += items.tokens(item) - (begins ? 0 : common);
      cost += items.cost(item) - (begins ? 0 : items.path_cost()(common));
      sequences += items.count(item);
    }
    ends.push_back(items.size());
    return ends.size() <= bins;
  };
  double high = 0;
  for (uint32_t item = 0; item < items.size(); ++item) high += items.cost(item);
  if (!cut(high)) return std::nullopt;
  double low = 0;
  for (int i = 0; i < 40; ++i) {
    const double middle = (low + high) / 2;
    (cut(middle) ? high : low) = middle;
  }
  cut(high);
  std::vector<TreeBin> result;
  uint32_t begin = 0;
  // As many runs as bins: the longest are halved.
  std::vector<std::pair<uint32_t, uint32_t>> runs;
  for (const uint32_t end : ends) {
    runs.emplace_back(begin, end);
    begin = end;
  }
  while (runs.size() < bins) {
    const auto longest = std::ranges::max_element(
        runs, {}, [](const auto& run) { return run.second - run.first; });
    const uint32_t middle = longest->first + (longest->second - longest->first) / 2;
    const uint32_t end = longest->second;
    longest->second = middle;
    runs.emplace_back(middle, end);
  }
  for (const auto& [first, end] : runs) {
    std::vector<uint32_t> own(end - first);
    std::iota(own.begin(), own.end(), first);
    result.push_back(BinOf(items, std::move(own)));
  }
  return result;
}

}  // namespace batchplan
