#include "server/planner/trees/tree_items.h"

#include <cstddef>
#include <iterator>
#include <limits>
#include <utility>

namespace batchplan {

PathCost::PathCost(const Pass& pass) {
  const CostModel& model = pass.cost_model();
  const uint32_t ranks = pass.topology().context_parallel;
  // Where rows are whole, a token costs the same whether it is laid or not.
  linear = pass.rows_are_whole() ? 0 : model.per_token / ranks;
  squared = model.per_token_squared / ranks;
  exchange = ExchangePerToken(model, ranks);
  overlaps = model.exchange_overlaps;
  per_sequence = model.per_sequence;
  per_microbatch = model.per_microbatch;
  if (pass.rows_are_whole()) per_microbatch += model.per_token / ranks * pass.bin_limits().capacity;
}

std::optional<TreeItems> TreeItems::Create(const Pass& pass, const MiniBatchTree& tree) {
  TreeItems items(pass, tree);
  const bool whole_groups = pass.groups_keep_microbatch();
  std::vector<bool> ended(whole_groups ? pass.groups().size() : 0, false);
  for (uint32_t leaf = 0; leaf < tree.size(); ++leaf) {
    const uint32_t common = tree.common(leaf);
    const double cost = items.path_cost_(tree.length(leaf)) + items.path_cost_.per_sequence +
                        pass.cost().ToUnits(pass.OfLoads(tree[leaf]));
    if (whole_groups) {
      const uint32_t group = pass.groups()[tree[leaf]];
      if (leaf > 0 && pass.groups()[tree[leaf - 1]] == group) {
        items.tokens_.back() += tree.length(leaf) - common;
        items.costs_.back() += cost - items.path_cost_(common);
        continue;
      }
      if (ended[group]) return std::nullopt;
      ended[group] = true;
    }
    items.first_.push_back(leaf);
    items.tokens_.push_back(tree.length(leaf));
    items.costs_.push_back(cost);
  }
  items.first_.push_back(tree.size());
  items.AddLoads(pass);
  return items;
}

void TreeItems::AddLoads(const Pass& pass) {
  constexpr double kNoLimit = std::numeric_limits<double>::infinity();
  const auto searched = [&](size_t load) -> SearchedLoad& {
    const auto found = std::ranges::find(searched_, load, &SearchedLoad::load);
    if (found != searched_.end()) return *found;
    return searched_.emplace_back(SearchedLoad{.load = load, .most = kNoLimit, .per_unit = 0});
  };
  for (const LoadBudget& limit : pass.limits()) {
    if (!limit.dealt) searched(limit.load).most = limit.most;
  }
  for (const LoadPhase& phase : pass.phases()) {
    if (!phase.dealt) searched(phase.load).per_unit = phase.per_unit;
  }
  for (uint32_t item = 0; item < size() && !searched_.empty(); ++item) {
    for (const SearchedLoad& load : searched_) {
      double sum = 0;
      for (uint32_t i = 0; i < count(item); ++i) {
        sum += pass.loads().Of(load.load, (*tree_)[first_[item] + i]);
      }
      loads_.push_back(sum);
    }
  }
  if (pass.limits().empty()) return;
  above_.assign(size(), false);
  for (uint32_t item = 0; item < size(); ++item) {
    above_[item] = count(item) == 1 && pass.RunsAlone((*tree_)[first_[item]]);
    // Nothing has room beside it.
    if (above_[item]) {
      tokens_[item] = std::max(tokens_[item], uint64_t{pass.bin_limits().capacity} + 1);
    }
  }
}

double CostWithPhases(const TreeItems& items, const TreeBin& bin) {
  double cost = bin.cost;
  const std::span<const SearchedLoad> searched = items.searched_loads();
  for (size_t i = 0; i < searched.size(); ++i) cost += searched[i].per_unit * bin.loads[i];
  return cost;
}

double ExcessOf(const TreeItems& items, const TreeBin& bin) {
  if (bin.items.size() == 1 && items.is_above_limits(bin.items.front())) return 0;
  double excess = 0;
  const std::span<const SearchedLoad> searched = items.searched_loads();
  for (size_t i = 0; i < searched.size(); ++i) {
    if (bin.loads[i] > searched[i].most) excess += bin.loads[i] / searched[i].most - 1;
  }
  return excess;
}

bool HasRoomForLoads(const TreeItems& items, const TreeBin& bin, std::span<const double> added) {
  const std::span<const SearchedLoad> searched = items.searched_loads();
  for (size_t load = 0; load < searched.size(); ++load) {
    if (bin.loads[load] + added[load] > searched[load].most) return false;
  }
  return true;
}

TreeBin BinOf(const TreeItems& items, std::vector<uint32_t> ascending) {
  TreeBin bin;
  bin.commons.reserve(ascending.size());
  for (size_t i = 0; i < ascending.size(); ++i) {
    const uint32_t item = ascending[i];
    const uint32_t common = i == 0 ? 0 : items.Common(ascending[i - 1], item);
    bin.commons.push_back(common);
    bin.tokens += items.tokens(item) - common;
    bin.sequences += items.count(item);
    bin.cost += items.cost(item) - items.path_cost()(common);
    const std::span<const double> loads = items.loads(item);
    for (size_t load = 0; load < loads.size(); ++load) bin.loads[load] += loads[load];
  }
  bin.items = std::move(ascending);
  return bin;
}

void AddTo(const TreeItems& items, std::span<const uint32_t> added, TreeBin& bin) {
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
    const std::span<const double> loads = items.loads(added[i]);
    for (size_t load = 0; load < loads.size(); ++load) bin.loads[load] += loads[load];
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

TreeChange ChangeBy(const TreeItems& items, const TreeBin& bin, std::span<const uint32_t> added,
                    const TreeChange& alone) {
  TreeChange change = alone;
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
  // Items of the bin that stand between two of those that are added.
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
