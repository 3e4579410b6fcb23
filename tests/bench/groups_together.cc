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

// `leaves` in runs of at most `most` tokens each.
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

// More slots than the fewest that the solver may try.
constexpr uint32_t kMoreSlots = 4;
// What a token counts in the solver's lengths. A placeholder counts 1, so that a micro-batch has
// room for many of them beside a piece of all its tokens.
constexpr uint32_t kScale = 4096;

}  // namespace

testing::RankMicrobatches GroupsTogether(const PrefixTree& tree, uint32_t budget, uint32_t ranks,
                                         Synchronization synchronization) {
  std::map<uint32_t, std::vector<uint32_t>> groups;
  for (uint32_t leaf = 0; leaf < tree.size(); ++leaf) groups[tree.group(leaf)].push_back(leaf);
  std::vector<PrefixRow> pieces;
  for (const auto& [group, leaves] : groups) AddPieces(tree, leaves, budget, pieces);

  // What all sequences have in common, every micro-batch lays once, whatever it has.
  const uint32_t common = tree.common();
  std::vector<uint32_t> lengths;
  std::vector<uint64_t> loads;
  for (const PrefixRow& piece : pieces) {
    lengths.push_back(kScale * static_cast<uint32_t>(piece.tokens() - common));
    loads.push_back(piece.cost() - PathCost(common));
  }
  // The solver leaves no micro-batch empty. Where pieces may be too few, placeholders fill them up.
  const BinLimits limits = {.capacity = kScale * (budget - common) + (kScale - 1)};
  const uint32_t bins = static_cast<uint32_t>(MostBins({.lengths = lengths}, limits));
  const uint32_t slots = (bins + ranks - 1) / ranks + kMoreSlots;
  for (size_t i = pieces.size(); i < size_t{slots} * ranks && i < kScale; ++i) {
    lengths.push_back(1);
    loads.push_back(1);
  }
  const PackItems items = {.lengths = lengths, .loads = loads};

  Bins packed;
  if (synchronization == Synchronization::kLockstep) {
    std::optional<LockstepSlots> solved = SolveLockstep({.items = items,
                                                         .limits = limits,
                                                         .ranks = ranks,
                                                         .counts = {},
                                                         .per_microbatch = PathCost(common)},
                                                        {});
    packed = std::move(solved.value().bins);
  } else {
    const FewestBins fewest = PackFewest(items, limits, 1, Effort::kDefault);
    const size_t of_rank = (fewest.bins.size() + ranks - 1) / ranks;
    packed = BalanceAccumulated(items, limits, ranks, of_rank, fewest.bins, Effort::kDefault);
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
