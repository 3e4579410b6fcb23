#include "server/planner/rows/row.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <span>
#include <utility>
#include <vector>

#include "server/planner/rows/row_items.h"

namespace batchplan {
namespace {

void AddLoads(const RowItems& items, uint32_t item, Row& row) {
  const std::span<const double> loads = items.loads(item);
  for (size_t load = 0; load < loads.size(); ++load) row.loads.sums[load] += loads[load];
  if (!items.some_are_dealt()) return;
  const std::span<const double> largest = items.largest(item);
  for (size_t load = 0; load < largest.size(); ++load) {
    row.loads.largest[load] = std::max(row.loads.largest[load], largest[load]);
  }
}

}  // namespace

double CostWithPhases(const RowItems& items, const Row& bin) {
  double cost = bin.cost;
  const std::span<const SearchedLoad> searched = items.searched_loads();
  for (size_t i = 0; i < searched.size(); ++i) {
    if (!searched[i].dealt) cost += searched[i].per_unit * bin.loads.sums[i];
  }
  return cost;
}

double ExcessOf(const RowItems& items, const Row& bin) {
  if (bin.items.size() == 1 && items.is_above_limits(bin.items.front())) return 0;
  double excess = 0;
  const std::span<const SearchedLoad> searched = items.searched_loads();
  for (size_t i = 0; i < searched.size(); ++i) {
    excess += searched[i].ExcessOf(bin.loads.sums[i]);
  }
  return excess;
}

bool HasRoomForLoads(const RowItems& items, const Row& bin, std::span<const double> added) {
  const std::span<const SearchedLoad> searched = items.searched_loads();
  for (size_t load = 0; load < searched.size(); ++load) {
    if (bin.loads.sums[load] + added[load] > searched[load].most) return false;
  }
  return true;
}

Row BinOf(const RowItems& items, std::vector<uint32_t> ascending) {
  Row bin;
  bin.commons.reserve(ascending.size());
  for (size_t i = 0; i < ascending.size(); ++i) {
    const uint32_t item = ascending[i];
    const uint32_t common = i == 0 ? 0 : items.Common(ascending[i - 1], item);
    bin.commons.push_back(common);
    bin.tokens += items.tokens(item) - common;
    bin.sequences += items.count(item);
    bin.cost += items.cost(item) - items.path_cost()(common);
    AddLoads(items, item, bin);
  }
  bin.items = std::move(ascending);
  return bin;
}

void AddTo(const RowItems& items, std::span<const uint32_t> added, Row& bin) {
  const auto next = std::ranges::lower_bound(bin.items, added.front());
  const auto place = next - bin.items.begin();
  if (next != bin.items.end() && *next < added.back()) {
    std::vector<uint32_t> all;
    all.reserve(bin.items.size() + added.size());
    std::ranges::merge(bin.items, added, std::back_inserter(all));
    bin = BinOf(items, std::move(all));
    return;
  }
  const PathCost& cost = items.path_cost();
  std::vector<uint32_t> commons;
  commons.reserve(added.size());
  for (size_t i = 0; i < added.size(); ++i) {
    const bool is_first = i == 0 && place == 0;
    const uint32_t before = i == 0 ? (is_first ? 0 : bin.items[place - 1]) : added[i - 1];
    const uint32_t common = is_first ? 0 : items.Common(before, added[i]);
    commons.push_back(common);
    bin.tokens += items.tokens(added[i]) - common;
    bin.sequences += items.count(added[i]);
    bin.cost += items.cost(added[i]) - cost(common);
    AddLoads(items, added[i], bin);
  }
  if (next != bin.items.end()) {
    uint32_t& common = bin.commons[place];
    const uint32_t joined = items.Common(added.back(), *next);
    bin.tokens -= joined - common;
    bin.cost -= cost(joined) - cost(common);
    common = joined;
  }
  bin.items.insert(bin.items.begin() + place, added.begin(), added.end());
  bin.commons.insert(bin.commons.begin() + place, commons.begin(), commons.end());
}

RowChange ChangeBy(const RowItems& items, const Row& bin, std::span<const uint32_t> added,
                   const RowChange& alone) {
  RowChange change = alone;
  if (!items.shares()) return change;
  const PathCost& cost = items.path_cost();
  const auto join = [&](uint32_t a, uint32_t b) {
    const uint32_t common = items.Common(a, b);
    if (common == 0) return;
    change.tokens -= common;
    change.cost -= cost(common);
  };
  const auto part = [&](uint32_t common) {
    if (common == 0) return;
    change.tokens += common;
    change.cost += cost(common);
  };
  const std::vector<uint32_t>& own = bin.items;
  size_t next = std::ranges::lower_bound(own, added.front()) - own.begin();
  if (next > 0) join(own[next - 1], added.front());
  if (next == own.size()) return change;
  part(bin.commons[next]);
  // Items of the bin that lie between two added ones.
  for (size_t i = 1; i < added.size() && next < own.size(); ++i) {
    if (own[next] > added[i]) continue;
    part(items.Common(added[i - 1], added[i]));
    join(added[i - 1], own[next]);
    while (next + 1 < own.size() && own[next + 1] < added[i]) ++next;
    join(own[next], added[i]);
    ++next;
    if (next < own.size()) part(bin.commons[next]);
  }
  if (next < own.size()) join(added.back(), own[next]);
  return change;
}

}  // namespace batchplan
