#include "tests/bench/groups_together.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "server/planner/balance/accumulated.h"
#include "server/planner/packing/fewest_bins.h"
#include "server/planner/ranks/solve_lockstep.h"

namespace batchplan::bench {
namespace {

// Divides `leaves` into runs of at most `most` tokens each.
std::vector<PrefixRow> RunsOf(const PrefixTree& tree, const std::vector<uint32_t>& leaves,
                              uint64_t most) {
  std::vector<PrefixRow> runs;
  for (const uint32_t leaf : leaves) {
    if (runs.empty() || runs.back().tokens() + runs.back().NewTokens(leaf) > most) {
      runs.emplace_back(tree);
    }
    runs.back().Add(leaf);
  }
  return runs;
}

void AddPieces(const PrefixTree& tree, const std::vector<uint32_t>& leaves, uint32_t budget,
               std::vector<PrefixRow>& pieces) {
  const size_t fewest = RunsOf(tree, leaves, budget).size();
  uint64_t most = budget;
  uint64_t least = 0;
  for (const uint32_t leaf : leaves) least = std::max<uint64_t>(least, tree.length(leaf));
  while (least < most) {
    const uint64_t middle = (least + most) / 2;
    if (RunsOf(tree, leaves, middle).size() > fewest) {
      least = middle + 1;
    } else {
      most = middle;
    }
  }
  for (PrefixRow& run : RunsOf(tree, leaves, most)) pieces.push_back(std::move(run));
}

// Cuts the costliest piece that has several leaves, where the costlier of its parts is cheapest.
// False if there is none.
bool CutCostliest(const PrefixTree& tree, std::vector<PrefixRow>& pieces) {
  const auto costliest = std::ranges::max_element(pieces, {}, [](const PrefixRow& piece) {
    return piece.leaves().size() < 2 ? 0 : piece.cost();
  });
  const std::vector<uint32_t> leaves(costliest->leaves().begin(), costliest->leaves().end());
  if (leaves.size() < 2) return false;
  std::optional<std::pair<PrefixRow, PrefixRow>> best;
  uint64_t least = 0;
  for (size_t cut = 1; cut < leaves.size(); ++cut) {
    std::pair<PrefixRow, PrefixRow> parts{PrefixRow(tree), PrefixRow(tree)};
    for (size_t i = 0; i < leaves.size(); ++i)
      (i < cut ? parts.first : parts.second).Add(leaves[i]);
    const uint64_t cost = std::max(parts.first.cost(), parts.second.cost());
    if (!best || cost < least) {
      best = std::move(parts);
      least = cost;
    }
  }
  *costliest = std::move(best->first);
  pieces.push_back(std::move(best->second));
  return true;
}

// The pieces in the form of the planner's solvers.
struct Items {
  std::vector<uint32_t> lengths;
  std::vector<uint64_t> loads;

  PackItems view() const { return {.lengths = lengths, .loads = loads}; }
};

// The length of a token for the solvers. A placeholder has length 1, so that a micro-batch has room
// for all placeholders besides pieces with all its tokens.
constexpr uint32_t kScale = 4096;

// Leaves out the `common` first tokens of all sequences, which every micro-batch has once.
Items ItemsOf(const std::vector<PrefixRow>& pieces, uint32_t common) {
  Items items;
  for (const PrefixRow& piece : pieces) {
    items.lengths.push_back(kScale * static_cast<uint32_t>(piece.tokens() - common));
    items.loads.push_back(piece.cost() - PathCost(common));
  }
  return items;
}

}  // namespace

testing::RankMicrobatches GroupsTogether(const PrefixTree& tree, uint32_t budget, uint32_t ranks,
                                         Synchronization synchronization, bool may_be_empty) {
  std::map<uint32_t, std::vector<uint32_t>> groups;
  for (uint32_t leaf = 0; leaf < tree.size(); ++leaf) groups[tree.group(leaf)].push_back(leaf);
  std::vector<PrefixRow> pieces;
  for (const auto& [group, leaves] : groups) AddPieces(tree, leaves, budget, pieces);

  const uint32_t common = tree.common();
  const BinLimits limits = {.capacity = kScale * (budget - common) + kScale - 1};
  Items items;
  FewestBins fewest;
  size_t slots = 0;
  do {
    items = ItemsOf(pieces, common);
    fewest = PackFewest(items.view(), limits, 1, Effort::kDefault);
    slots = (fewest.bins.size() + ranks - 1) / ranks;
  } while (!may_be_empty && pieces.size() < slots * ranks && CutCostliest(tree, pieces));
  // The solvers leave no micro-batch empty, so placeholders fill the empty ones, in as many slots
  // as the solvers may try.
  constexpr size_t kMoreSlots = 4;
  for (size_t i = pieces.size(); may_be_empty && i < (slots + kMoreSlots) * ranks; ++i) {
    items.lengths.push_back(1);
    items.loads.push_back(1);
  }

  Bins packed;
  if (synchronization == Synchronization::kLockstep) {
    std::optional<LockstepSlots> solved = SolveLockstep({.items = items.view(),
                                                         .limits = limits,
                                                         .ranks = ranks,
                                                         .counts = {},
                                                         .per_microbatch = PathCost(common)},
                                                        {});
    packed = std::move(solved.value().bins);
  } else {
    fewest = PackFewest(items.view(), limits, slots * ranks, Effort::kDefault);
    packed = BalanceAccumulated(items.view(), limits, ranks, slots, fewest.bins, Effort::kDefault);
  }
  testing::RankMicrobatches plan(ranks);
  const size_t of_rank = packed.size() / ranks;
  for (size_t bin = 0; bin < packed.size(); ++bin) {
    std::vector<uint32_t>& microbatch = plan[bin / of_rank].emplace_back();
    for (const uint32_t item : packed[bin]) {
      if (item >= pieces.size()) continue;
      const std::vector<uint32_t> sequences = pieces[item].Sequences();
      microbatch.insert(microbatch.end(), sequences.begin(), sequences.end());
    }
  }
  return plan;
}

}  // namespace batchplan::bench
