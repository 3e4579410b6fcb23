#include "server/planner/rows/row_items.h"

#include <cstddef>
#include <iterator>
#include <limits>
#include <utility>

namespace batchplan {

PathCost::PathCost(const Pass& pass) {
  const CostModel& model = pass.cost_model();
  const uint32_t ranks = pass.topology().context_parallel;
  // If rows are whole, a token costs the same whether it is laid or not.
  linear = pass.rows_are_whole() ? 0 : model.per_token / ranks;
  squared = model.per_token_squared / ranks;
  exchange = ExchangePerToken(model, ranks);
  overlaps = model.exchange_overlaps;
  per_sequence = model.per_sequence;
  per_microbatch = model.per_microbatch;
  if (pass.rows_are_whole()) per_microbatch += model.per_token / ranks * pass.bin_limits().capacity;
}

std::optional<RowItems> RowItems::Create(const Pass& pass, const MiniBatchTree& tree) {
  RowItems items(pass, tree);
  const bool whole_groups = pass.groups_keep_microbatch();
  std::vector<bool> ended(whole_groups ? pass.groups().size() : 0, false);
  for (uint32_t leaf = 0; leaf < tree.size(); ++leaf) {
    const uint32_t common = tree.common(leaf);
    const double cost = items.path_cost_(tree.length(leaf)) + items.path_cost_.per_sequence +
                        pass.cost().ToUnits(pass.loads().InMicrobatch(tree[leaf]));
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

void RowItems::AddLargest(const Pass& pass) {
  if (std::ranges::none_of(searched_, &SearchedLoad::dealt)) return;
  largest_.reserve(loads_.size());
  for (uint32_t item = 0; item < size(); ++item) {
    for (const SearchedLoad& load : searched_) {
      double& largest = largest_.emplace_back(0);
      for (uint32_t i = 0; load.dealt && i < count(item); ++i) {
        const SequenceIndex sequence = (*tree_)[first_[item] + i];
        for (const double value : pass.loads().given().ItemsOf(*load.load, sequence)) {
          largest = std::max(largest, value);
        }
      }
    }
  }
}

void RowItems::AddLoads(const Pass& pass) {
  constexpr double kNoLimit = std::numeric_limits<double>::infinity();
  const auto searched = [&](size_t load) -> SearchedLoad& {
    const auto found = std::ranges::find(searched_, load, &SearchedLoad::load);
    if (found != searched_.end()) return *found;
    return searched_.emplace_back(SearchedLoad{.load = load, .most = kNoLimit, .per_unit = 0});
  };
  for (const LoadBudget& limit : pass.loads().limits()) {
    if (!limit.dealt) searched(limit.load).most = limit.most;
  }
  for (const LoadPhase& phase : pass.loads().phases()) {
    SearchedLoad& load = searched(phase.load);
    load.per_unit = phase.per_unit;
    load.dealt = phase.dealt;
  }
  if (pass.row_multiple() > 1) {
    searched_.push_back({.load = std::nullopt,
                         .most = std::numeric_limits<double>::infinity(),
                         .per_unit = 0,
                         .multiple = static_cast<double>(pass.row_multiple())});
  }
  for (uint32_t item = 0; item < size() && !searched_.empty(); ++item) {
    for (const SearchedLoad& load : searched_) {
      if (!load.load) {
        loads_.push_back(count(item));
        continue;
      }
      double sum = 0;
      for (uint32_t i = 0; i < count(item); ++i) {
        sum += pass.loads().given().Of(*load.load, (*tree_)[first_[item] + i]);
      }
      loads_.push_back(sum);
    }
  }
  AddLargest(pass);
  if (pass.loads().limits().empty()) return;
  above_.assign(size(), false);
  for (uint32_t item = 0; item < size(); ++item) {
    above_[item] = count(item) == 1 && pass.RunsAlone((*tree_)[first_[item]]);
    // Nothing fits beside it.
    if (above_[item]) {
      tokens_[item] = std::max(tokens_[item], uint64_t{pass.bin_limits().capacity} + 1);
    }
  }
}

}  // namespace batchplan
