#include "server/planner/rows/reference_trees.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <limits>
#include <map>
#include <numeric>
#include <set>
#include <utility>
#include <vector>

#include "server/planner/balance/rank_bins.h"
#include "server/planner/pass/mini_batch_tree.h"
#include "server/planner/rows/row.h"
#include "server/planner/rows/row_items.h"

namespace batchplan {
namespace {

constexpr uint32_t kNoRow = std::numeric_limits<uint32_t>::max();

// On either side of an item that is to be added, in depth-first order.
constexpr int kSharingNeighbours = 64;

// The rows of each rank.
using RankRows = std::vector<std::vector<Row>>;

// The open rows, and which of them have something in common with an item.
class OpenRows {
 public:
  OpenRows(const Pass& pass, const RowItems& items)
      : items_(items), limits_(pass.bin_limits()), row_of_(items.size(), kNoRow) {}

  std::vector<Row> Take() { return std::move(rows_); }

  // Puts the item into the first row with room for its new tokens, or into a new row.
  void AddToFirst(uint32_t item) {
    uint32_t first = kNoRow;
    for (const uint32_t row : Sharing(item)) {
      if (NewTokens(row, item)) first = std::min(first, row);
    }
    // Rows that share nothing with the item.
    for (uint32_t row = 0; row < std::min<size_t>(first, rows_.size());) {
      row = NextWithRoom(row, items_.tokens(item));
      if (row >= std::min<size_t>(first, rows_.size())) break;
      if (NewTokens(row, item)) first = row;
      ++row;
    }
    Add(first, item);
  }

  // Puts the item into the row that it leaves fullest, or into a new row.
  void AddToFullest(uint32_t item) {
    uint32_t best = kNoRow;
    uint64_t least = std::numeric_limits<uint64_t>::max();
    const auto look = [&](uint32_t row) {
      const std::optional<uint64_t> added = NewTokens(row, item);
      if (!added) return false;
      const uint64_t left = limits_.capacity - rows_[row].tokens - *added;
      if (std::pair(left, row) < std::pair(least, best)) {
        least = left;
        best = row;
      }
      return true;
    };
    for (const uint32_t row : Sharing(item)) look(row);
    for (auto at = by_room_.lower_bound({items_.tokens(item), 0}); at != by_room_.end(); ++at) {
      if (look(at->second)) break;
    }
    Add(best, item);
  }

 private:
  // The tokens that the item adds to the row, if the row has room for them.
  std::optional<uint64_t> NewTokens(uint32_t row, uint32_t item) const {
    const Row& bin = rows_[row];
    if (bin.sequences + uint64_t{items_.count(item)} > limits_.max_sequences ||
        !HasRoomForLoads(items_, bin, items_.loads(item))) {
      return std::nullopt;
    }
    const RowChange alone = {.tokens = items_.tokens(item), .cost = items_.cost(item)};
    const uint64_t added = ChangeBy(items_, bin, {&item, 1}, alone).tokens;
    if (bin.tokens + added > limits_.capacity) return std::nullopt;
    return added;
  }

  std::vector<uint32_t> Sharing(uint32_t item) const {
    std::vector<uint32_t> rows;
    const auto note = [&](uint32_t other) {
      if (std::ranges::find(rows, row_of_[other]) == rows.end()) rows.push_back(row_of_[other]);
    };
    auto after = placed_.lower_bound(item);
    auto before = after;
    for (int i = 0; i < kSharingNeighbours && after != placed_.end(); ++i, ++after) {
      if (items_.Common(item, *after) == 0) break;
      note(*after);
    }
    for (int i = 0; i < kSharingNeighbours && before != placed_.begin(); ++i) {
      if (items_.Common(*--before, item) == 0) break;
      note(*before);
    }
    return rows;
  }

  // The first row from `row` on with room for `tokens`. Rows fill up from the front.
  uint32_t NextWithRoom(uint32_t row, uint64_t tokens) {
    while (full_ < rows_.size() && rows_[full_].tokens >= limits_.capacity) ++full_;
    row = std::max(row, full_);
    while (row < rows_.size() && rows_[row].tokens + tokens > limits_.capacity) ++row;
    return row;
  }

  void Add(uint32_t row, uint32_t item) {
    if (row == kNoRow) {
      row = static_cast<uint32_t>(rows_.size());
      rows_.emplace_back();
    } else {
      by_room_.erase({limits_.capacity - rows_[row].tokens, row});
    }
    AddTo(items_, {&item, 1}, rows_[row]);
    row_of_[item] = row;
    placed_.insert(item);
    // A sequence that runs alone leaves no room.
    const uint64_t tokens = std::min<uint64_t>(rows_[row].tokens, limits_.capacity);
    if (tokens < limits_.capacity) by_room_.emplace(limits_.capacity - tokens, row);
  }

  const RowItems& items_;
  const BinLimits limits_;
  std::vector<Row> rows_;
  std::vector<uint32_t> row_of_;
  std::set<uint32_t> placed_;
  std::set<std::pair<uint64_t, uint32_t>> by_room_;
  uint32_t full_ = 0;
};

class TreePlacer {
 public:
  TreePlacer(const Pass& pass, const RowItems& items, const Allowance& allowance)
      : pass_(pass), items_(items), allowance_(allowance) {
    // Families by the first of their sequences in the manifest.
    in_order_.resize(items.size());
    std::iota(in_order_.begin(), in_order_.end(), 0u);
    std::ranges::sort(in_order_, {}, [&](uint32_t item) { return SequenceOf(item); });
    std::map<uint32_t, uint32_t> numbers;
    uint32_t tree = 0;
    std::vector<uint32_t> tree_of(items.size());
    for (uint32_t item = 0; item < items.size(); ++item) {
      if (item > 0 && items.Common(item - 1, item) == 0) ++tree;
      tree_of[item] = tree;
    }
    family_of_.resize(items.size());
    const std::span<const uint32_t> groups = pass.group_ids();
    for (const uint32_t item : in_order_) {
      const uint32_t id = groups.empty() ? tree_of[item] : groups[SequenceOf(item).value()];
      const auto [family, is_new] = numbers.try_emplace(id, numbers.size());
      family_of_[item] = family->second;
      if (is_new) families_.emplace_back();
      families_[family->second].push_back(item);
    }
  }

  // AReaL: families by their tokens, descending, to the lightest rank that lacks families of its
  // share; then each sequence into the first row with room.
  RankRows Areal() const {
    std::vector<uint64_t> tokens(families_.size(), 0);
    for (uint32_t item = 0; item < items_.size(); ++item) {
      tokens[family_of_[item]] += items_.tokens(item);
    }
    std::vector<uint32_t> order(families_.size());
    std::iota(order.begin(), order.end(), 0u);
    std::ranges::stable_sort(order, std::greater<>(), [&](uint32_t f) { return tokens[f]; });
    const size_t share = (families_.size() + pass_.ranks() - 1) / pass_.ranks();
    std::set<std::pair<uint64_t, uint32_t>> ranks;
    for (uint32_t rank = 0; rank < pass_.ranks(); ++rank) ranks.insert({0, rank});
    std::vector<size_t> counts(pass_.ranks(), 0);
    std::vector<uint32_t> rank_of(families_.size());
    for (const uint32_t family : order) {
      const auto [sum, rank] = *ranks.begin();
      ranks.erase(ranks.begin());
      rank_of[family] = rank;
      if (++counts[rank] < share) ranks.insert({sum + tokens[family], rank});
    }
    std::vector<OpenRows> open(pass_.ranks(), OpenRows(pass_, items_));
    for (const uint32_t item : in_order_) {
      if (Stops(item)) break;
      open[rank_of[family_of_[item]]].AddToFirst(item);
    }
    RankRows rows;
    for (OpenRows& own : open) rows.push_back(own.Take());
    return rows;
  }

  // TRL: each rank has an open row. A sequence goes to a row with its family, or else to the row
  // with the least attention, if that has room; if no row has room, all rows close.
  RankRows Trl() const {
    RankRows rows(pass_.ranks());
    std::vector<Row> open(pass_.ranks());
    std::vector<std::vector<uint32_t>> ranks_of(families_.size());
    std::vector<uint32_t> touched;
    std::set<std::pair<double, uint32_t>> by_attention;
    const auto attention = [&](uint32_t rank) {
      double sum = 0;
      for (size_t i = 0; i < open[rank].items.size(); ++i) {
        const double length = items_.tree().length(items_.first(open[rank].items[i]));
        const double common = open[rank].commons[i];
        sum += length * length - common * common;
      }
      return sum;
    };
    const auto restart = [&] {
      by_attention.clear();
      for (uint32_t rank = 0; rank < pass_.ranks(); ++rank) by_attention.insert({0, rank});
      for (const uint32_t family : touched) ranks_of[family].clear();
      touched.clear();
    };
    restart();
    const auto add = [&](uint32_t rank, uint32_t item) {
      by_attention.erase({attention(rank), rank});
      AddTo(items_, {&item, 1}, open[rank]);
      by_attention.insert({attention(rank), rank});
      ranks_of[family_of_[item]].push_back(rank);
      touched.push_back(family_of_[item]);
    };
    for (const uint32_t item : in_order_) {
      if (Stops(item)) break;
      const auto fits = [&](uint32_t rank) {
        const RowChange alone = {.tokens = items_.tokens(item), .cost = 0};
        const Row& row = open[rank];
        return row.items.empty() || (row.sequences < pass_.bin_limits().max_sequences &&
                                     HasRoomForLoads(items_, row, items_.loads(item)) &&
                                     row.tokens + ChangeBy(items_, row, {&item, 1}, alone).tokens <=
                                         pass_.bin_limits().capacity);
      };
      uint32_t to = kNoRow;
      for (const uint32_t rank : ranks_of[family_of_[item]]) {
        if (to == kNoRow && fits(rank)) to = rank;
      }
      for (const auto& [sum, rank] : by_attention) {
        if (to != kNoRow) break;
        if (fits(rank)) to = rank;
      }
      if (to == kNoRow) {
        Close(open, rows);
        restart();
        to = 0;
      }
      add(to, item);
    }
    Close(open, rows);
    return rows;
  }

  // ART: families by their longest sequence, descending; each of their sequences into the row that
  // it leaves fullest; rows are dealt by cost.
  RankRows Art() const {
    std::vector<uint64_t> longest(families_.size(), 0);
    for (uint32_t item = 0; item < items_.size(); ++item) {
      longest[family_of_[item]] = std::max(longest[family_of_[item]], items_.tokens(item));
    }
    std::vector<uint32_t> order(families_.size());
    std::iota(order.begin(), order.end(), 0u);
    std::ranges::stable_sort(order, std::greater<>(), [&](uint32_t f) { return longest[f]; });
    OpenRows open(pass_, items_);
    for (const uint32_t family : order) {
      for (const uint32_t item : families_[family]) {
        if (!Stops(item)) open.AddToFullest(item);
      }
    }
    std::vector<Row> made = open.Take();
    std::vector<uint64_t> loads;
    loads.reserve(made.size());
    for (const Row& row : made) {
      loads.push_back(static_cast<uint64_t>(pass_.cost().FromUnits(row.cost)));
    }
    const size_t slots = (made.size() + pass_.ranks() - 1) / pass_.ranks();
    const std::vector<uint32_t> bin_at = DealBins(loads, pass_.ranks(), slots);
    RankRows rows(pass_.ranks());
    for (size_t m = 0; m < bin_at.size(); ++m) {
      if (bin_at[m] < made.size()) rows[m / slots].push_back(std::move(made[bin_at[m]]));
    }
    return rows;
  }

 private:
  // Looks for a stop now and then.
  bool Stops(uint32_t item) const { return item % 256 == 0 && allowance_.stop_requested(); }
  SequenceIndex SequenceOf(uint32_t item) const { return items_.tree()[items_.first(item)]; }

  static void Close(std::vector<Row>& open, RankRows& rows) {
    for (size_t rank = 0; rank < open.size(); ++rank) {
      if (!open[rank].items.empty()) rows[rank].push_back(std::move(open[rank]));
      open[rank] = {};
    }
  }

  const Pass& pass_;
  const RowItems& items_;
  const Allowance& allowance_;
  // By position in the manifest.
  std::vector<uint32_t> in_order_;
  std::vector<uint32_t> family_of_;
  std::vector<std::vector<uint32_t>> families_;
};

// Halves the row with most items; false if no row has two.
bool HalveLargestRow(const RowItems& items, std::vector<Row>& rows) {
  const auto largest =
      std::ranges::max_element(rows, {}, [](const Row& row) { return row.items.size(); });
  if (largest == rows.end() || largest->items.size() < 2) return false;
  const auto middle = largest->items.begin() + static_cast<ptrdiff_t>(largest->items.size() / 2);
  Row second = BinOf(items, {middle, largest->items.end()});
  *largest = BinOf(items, {largest->items.begin(), middle});
  rows.push_back(std::move(second));
  return true;
}

}  // namespace

std::optional<Placement> PlaceAsTrees(const Pass& pass, std::span<const SequenceIndex> sequences,
                                      const Allowance& allowance) {
  const MiniBatchTree tree(pass, sequences);
  const std::optional<RowItems> items = RowItems::Create(pass, tree);
  if (!items) return std::nullopt;
  const TreePlacer placer(pass, *items, allowance);
  const Sharding sharding = pass.options().sharding;
  RankRows rows = sharding == Sharding::kArealTree ? placer.Areal()
                  : sharding == Sharding::kTrlTree ? placer.Trl()
                                                   : placer.Art();
  if (allowance.stop_requested()) return std::nullopt;
  size_t most = 1;
  for (const std::vector<Row>& own : rows) most = std::max(most, own.size());
  const size_t slots = pass.counts().RoundUp(most);
  if (pass.allow_empty() && slots > pass.most_with_empty() / pass.ranks()) return std::nullopt;
  Placement placement;
  placement.slots = static_cast<uint32_t>(slots);
  for (std::vector<Row>& own : rows) {
    while (own.size() < slots && !pass.allow_empty()) {
      if (!HalveLargestRow(*items, own)) return std::nullopt;
    }
    own.resize(slots);
    for (const Row& row : own) {
      std::vector<SequenceIndex> of_row;
      for (const uint32_t item : row.items) of_row.push_back(tree[items->first(item)]);
      placement.widths.push_back(pass.RowOf(of_row));
      placement.microbatches.Push(of_row);
      placement.microbatches.Close();
    }
  }
  return placement;
}

}  // namespace batchplan
