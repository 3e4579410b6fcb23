#include "tests/bench/prefix_systems.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <map>
#include <utility>
#include <vector>

namespace batchplan::bench {
namespace {

using testing::RankMicrobatches;

// The rows of each rank; ranks may have different numbers of them.
using RankRows = std::vector<std::vector<PrefixRow>>;

RankMicrobatches PlanOf(const RankRows& rows) {
  size_t slots = 0;
  for (const auto& rank : rows) slots = std::max(slots, rank.size());
  RankMicrobatches plan;
  for (const auto& rank : rows) {
    auto& microbatches = plan.emplace_back(slots);
    for (size_t slot = 0; slot < rank.size(); ++slot) microbatches[slot] = rank[slot].Sequences();
  }
  return plan;
}

bool Fits(const PrefixRow& row, uint32_t leaf, uint32_t budget) {
  return row.tokens() + row.NewTokens(leaf) <= budget;
}

// The leaves of a group, by position in the batch.
struct Group {
  std::vector<uint32_t> leaves;
  uint64_t tokens = 0;  // of all its sequences
  uint32_t longest = 0;
};

// Groups in the order of their first sequences.
std::vector<Group> GroupsOf(const PrefixTree& tree) {
  std::vector<Group> groups;
  std::map<uint32_t, size_t> places;
  for (uint32_t sequence = 0; sequence < tree.size(); ++sequence) {
    const uint32_t leaf = tree.leaf(sequence);
    const auto [place, is_new] = places.try_emplace(tree.group(leaf), groups.size());
    if (is_new) groups.emplace_back();
    Group& group = groups[place->second];
    group.leaves.push_back(leaf);
    group.tokens += tree.length(leaf);
    group.longest = std::max(group.longest, tree.length(leaf));
  }
  return groups;
}

// Next fit: a row closes at the first leaf that it has no room for.
std::vector<PrefixRow> NextFit(const PrefixTree& tree, const std::vector<uint32_t>& leaves,
                               uint32_t budget) {
  std::vector<PrefixRow> rows;
  for (const uint32_t leaf : leaves) {
    if (rows.empty() || !Fits(rows.back(), leaf, budget)) rows.emplace_back(tree);
    rows.back().Add(leaf);
  }
  return rows;
}

// The groups of each rank: by the tokens of their sequences in descending order, each to the
// lightest rank that may have more groups. AReaL and NeMo-RL want equally many groups on every
// rank.
std::vector<std::vector<Group>> EvenGroups(const PrefixTree& tree, uint32_t ranks) {
  std::vector<Group> groups = GroupsOf(tree);
  std::ranges::stable_sort(groups, std::greater(), &Group::tokens);
  const size_t share = (groups.size() + ranks - 1) / ranks;
  std::vector<std::vector<Group>> shares(ranks);
  std::vector<uint64_t> tokens(ranks, 0);
  for (Group& group : groups) {
    size_t lightest = ranks;
    for (size_t rank = 0; rank < ranks; ++rank) {
      if (shares[rank].size() == share) continue;
      if (lightest == ranks || tokens[rank] < tokens[lightest]) lightest = rank;
    }
    tokens[lightest] += group.tokens;
    shares[lightest].push_back(std::move(group));
  }
  return shares;
}

// AReaL (areal/utils/seqpack.py, areal/models/tree_attn/tree.py): groups to ranks as above; then
// sequences in the order of the batch, each into the first tree with room for its new tokens.
RankMicrobatches ArealPlan(const PrefixTree& tree, uint32_t budget, uint32_t ranks) {
  RankRows rows(ranks);
  const std::vector<std::vector<Group>> shares = EvenGroups(tree, ranks);
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    std::vector<uint32_t> leaves;
    for (const Group& group : shares[rank]) {
      leaves.insert(leaves.end(), group.leaves.begin(), group.leaves.end());
    }
    std::ranges::sort(leaves, {}, [&](uint32_t leaf) { return tree.sequence(leaf); });
    for (const uint32_t leaf : leaves) {
      auto row = std::ranges::find_if(
          rows[rank], [&](const PrefixRow& open) { return Fits(open, leaf, budget); });
      if (row == rows[rank].end()) row = rows[rank].insert(row, PrefixRow(tree));
      row->Add(leaf);
    }
  }
  return PlanOf(rows);
}

// AReaL-DTA (areal/experimental/dta/dp.py): runs of leaves in depth-first order, one for each rank;
// bisection makes the costliest run as cheap as it can. AReaL-DTA runs leaves one by one, without a
// budget; here a run is cut to keep to the budget.
RankMicrobatches ArealDtaPlan(const PrefixTree& tree, uint32_t budget, uint32_t ranks) {
  const auto runs_within = [&](uint64_t most) {
    std::vector<PrefixRow> runs;
    for (uint32_t leaf = 0; leaf < tree.size(); ++leaf) {
      if (runs.empty() || runs.back().cost() + runs.back().NewCost(leaf) > most) {
        runs.emplace_back(tree);
      }
      runs.back().Add(leaf);
    }
    return runs;
  };
  uint64_t least = 0;
  for (uint32_t leaf = 0; leaf < tree.size(); ++leaf) {
    least = std::max(least, PathCost(tree.length(leaf)));
  }
  uint64_t most = runs_within(~uint64_t{0})[0].cost();
  while (least < most) {
    const uint64_t middle = least + (most - least) / 2;
    if (runs_within(middle).size() > ranks) {
      least = middle + 1;
    } else {
      most = middle;
    }
  }
  RankRows rows(ranks);
  const std::vector<PrefixRow> runs = runs_within(most);
  for (size_t rank = 0; rank < runs.size(); ++rank) {
    rows[rank] = NextFit(tree, {runs[rank].leaves().begin(), runs[rank].leaves().end()}, budget);
  }
  return PlanOf(rows);
}

// ART (#905): groups by their longest sequence in descending order; each sequence goes into the row
// that it leaves fullest. Rows are dealt by descending cost.
RankMicrobatches ArtPlan(const PrefixTree& tree, uint32_t budget, uint32_t ranks) {
  std::vector<Group> groups = GroupsOf(tree);
  std::ranges::stable_sort(groups, std::greater(), &Group::longest);
  std::vector<PrefixRow> rows;
  for (const Group& group : groups) {
    for (const uint32_t leaf : group.leaves) {
      PrefixRow* fullest = nullptr;
      uint64_t tokens = 0;
      for (PrefixRow& row : rows) {
        const uint64_t filled = row.tokens() + row.NewTokens(leaf);
        if (filled <= budget && filled > tokens) {
          fullest = &row;
          tokens = filled;
        }
      }
      if (fullest == nullptr) fullest = &rows.emplace_back(tree);
      fullest->Add(leaf);
    }
  }
  std::ranges::stable_sort(rows, std::greater(), &PrefixRow::cost);
  RankRows dealt(ranks);
  for (size_t row = 0; row < rows.size(); ++row) {
    // Back and forth, so that no rank has the costliest row of every slot.
    const size_t place = row % ranks;
    dealt[row / ranks % 2 == 0 ? place : ranks - 1 - place].push_back(std::move(rows[row]));
  }
  return PlanOf(dealt);
}

// Some sequences of a group that share a row.
struct Star {
  PrefixRow row;
  uint64_t unshared = 0;  // their tokens without sharing
};

// First fit decreasing into stars of at most 16 sequences.
std::vector<Star> StarsOf(const PrefixTree& tree, Group group, uint32_t budget) {
  constexpr size_t kMostBranches = 16;
  std::ranges::stable_sort(group.leaves, std::greater(),
                           [&](uint32_t leaf) { return tree.length(leaf); });
  std::vector<Star> stars;
  for (const uint32_t leaf : group.leaves) {
    auto star = std::ranges::find_if(stars, [&](const Star& open) {
      return open.row.leaves().size() < kMostBranches && Fits(open.row, leaf, budget);
    });
    if (star == stars.end()) star = stars.insert(star, Star{.row = PrefixRow(tree)});
    star->row.Add(leaf);
    star->unshared += tree.length(leaf);
  }
  return stars;
}

// NeMo-RL (nemo_rl/data/packing/shared_prefix.py): groups to ranks as in AReaL; each group in
// stars; a rank's stars go into rows by first fit decreasing, by their tokens without sharing. In
// NeMo-RL a star shares only a prompt; here, all that its sequences have in common.
RankMicrobatches NemoRlPlan(const PrefixTree& tree, uint32_t budget, uint32_t ranks) {
  RankRows rows(ranks);
  const std::vector<std::vector<Group>> shares = EvenGroups(tree, ranks);
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    std::vector<Star> stars;
    for (const Group& group : shares[rank]) {
      std::ranges::move(StarsOf(tree, group, budget), std::back_inserter(stars));
    }
    std::ranges::stable_sort(stars, std::greater(), [](const Star& star) {
      return std::pair(star.unshared, star.row.tokens());
    });
    std::vector<uint64_t> tokens;
    for (const Star& star : stars) {
      const auto place = static_cast<size_t>(
          std::ranges::find_if(tokens,
                               [&](uint64_t in) { return in + star.row.tokens() <= budget; }) -
          tokens.begin());
      if (place == tokens.size()) {
        tokens.push_back(0);
        rows[rank].emplace_back(tree);
      }
      tokens[place] += star.row.tokens();
      for (const uint32_t leaf : star.row.leaves()) rows[rank][place].Add(leaf);
    }
  }
  return PlanOf(rows);
}

// TRL (#7328): one open row a rank, sequences in the order of the batch. A sequence goes into a row
// that has its group, else into the one with the least attention, if its new tokens fit. If no row
// has room, all rows close.
RankMicrobatches TrlPlan(const PrefixTree& tree, uint32_t budget, uint32_t ranks) {
  struct Open {
    PrefixRow row;
    std::vector<uint32_t> groups;
    uint64_t attention = 0;

    bool Has(uint32_t group) const { return std::ranges::find(groups, group) != groups.end(); }
  };
  RankRows rows(ranks);
  std::vector<Open> open;
  const auto close = [&] {
    for (size_t rank = 0; rank < open.size(); ++rank)
      rows[rank].push_back(std::move(open[rank].row));
    open.assign(ranks, {.row = PrefixRow(tree), .groups = {}});
  };
  close();
  for (uint32_t sequence = 0; sequence < tree.size(); ++sequence) {
    const uint32_t leaf = tree.leaf(sequence);
    const uint32_t group = tree.group(leaf);
    Open* best = nullptr;
    while (best == nullptr) {
      for (Open& candidate : open) {
        if (!Fits(candidate.row, leaf, budget)) continue;
        if (best == nullptr || std::pair(!candidate.Has(group), candidate.attention) <
                                   std::pair(!best->Has(group), best->attention)) {
          best = &candidate;
        }
      }
      if (best == nullptr) close();
    }
    // The cost beyond the tokens is attention.
    best->attention += best->row.NewCost(leaf) - 24576 * best->row.NewTokens(leaf);
    best->row.Add(leaf);
    if (!best->Has(group)) best->groups.push_back(group);
  }
  close();
  return PlanOf(rows);
}

// verl (#6689): groups to ranks by Karmarkar-Karp on 24576 u + u^2, where u is a group's tokens
// without those common to all groups; then next fit, depth first.
RankMicrobatches VerlPlan(const PrefixTree& tree, uint32_t budget, uint32_t ranks) {
  const std::vector<Group> groups = GroupsOf(tree);
  std::vector<uint64_t> loads;
  for (const Group& group : groups) {
    PrefixRow row(tree);
    for (const uint32_t leaf : group.leaves) row.Add(leaf);
    const uint64_t unique = row.tokens() - tree.common();
    loads.push_back(24576 * unique + unique * unique);
  }
  RankRows rows(ranks);
  const auto parts = testing::VerlPartition(loads, ranks, /*equal_sizes=*/false);
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    std::vector<uint32_t> leaves;
    for (const uint32_t group : parts[rank]) {
      leaves.insert(leaves.end(), groups[group].leaves.begin(), groups[group].leaves.end());
    }
    std::ranges::sort(leaves);
    rows[rank] = NextFit(tree, leaves, budget);
  }
  return PlanOf(rows);
}

constexpr PrefixSystem kSystems[] = {
    {"ART", ArtPlan},        {"AReaL-DTA", ArealDtaPlan}, {"TRL", TrlPlan},
    {"NeMo-RL", NemoRlPlan}, {"verl", VerlPlan},          {"AReaL", ArealPlan},
};

}  // namespace

std::span<const PrefixSystem> PrefixSystems() { return kSystems; }

}  // namespace batchplan::bench
