#include "server/planner/assign.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/planner/contiguous.h"
#include "server/planner/packing/packer.h"
#include "server/planner/seeds.h"

namespace batchplan {
namespace {

absl::Status TooFewSequences(absl::string_view where, uint64_t sequences, uint64_t microbatches,
                             const AssignmentRules& rules) {
  return absl::InvalidArgumentError(absl::StrCat(
      where, " has ", sequences, " sequences, but needs ", microbatches,
      " micro-batches of one or more (data_parallel ", rules.ranks, ", each rank at least ",
      rules.counts.minimum, " and a multiple of ", rules.counts.multiple, ")"));
}

// Deals bins to ranks slot by slot: sorted by load, each run of `ranks` bins is one slot, so that
// bins which run at the same time are as alike as can be. Within a slot the heaviest bin goes to
// the rank that has had least.
Assignment Deal(Bins bins, const Items& items, uint32_t ranks) {
  std::vector<uint64_t> loads(bins.size(), 0);
  for (size_t bin = 0; bin < bins.size(); ++bin) {
    for (uint32_t item : bins[bin]) loads[bin] += items.loads[item];
  }
  std::vector<uint32_t> order(bins.size());
  std::iota(order.begin(), order.end(), 0u);
  std::stable_sort(order.begin(), order.end(),
                   [&](uint32_t a, uint32_t b) { return loads[a] > loads[b]; });

  Assignment assignment;
  assignment.slots = static_cast<uint32_t>(bins.size() / ranks);
  assignment.bin_at.resize(bins.size());
  std::vector<std::pair<uint64_t, uint32_t>> lightest(ranks);  // (load so far, rank)
  for (uint32_t rank = 0; rank < ranks; ++rank) lightest[rank] = {0, rank};
  for (uint32_t slot = 0; slot < assignment.slots; ++slot) {
    std::sort(lightest.begin(), lightest.end());
    for (uint32_t i = 0; i < ranks; ++i) {
      const uint32_t bin = order[size_t{slot} * ranks + i];
      auto& [load, rank] = lightest[i];
      load += loads[bin];
      assignment.bin_at[size_t{rank} * assignment.slots + slot] = bin;
    }
  }
  assignment.bins = std::move(bins);
  return assignment;
}

absl::StatusOr<Assignment> PackThenDeal(const Items& items, const PassOptions& pass,
                                        const AssignmentRules& rules, absl::string_view where) {
  Bins bins = Pack(pass.packer, items.lengths, rules.limits, rules.seed);
  const uint64_t slots = rules.counts.RoundUp((bins.size() + rules.ranks - 1) / rules.ranks);
  const uint64_t target = slots * rules.ranks;
  if (target > items.size()) return TooFewSequences(where, items.size(), target, rules);
  return Deal(SplitToCount(bins, target, rules.ranks, items, rules.limits), items, rules.ranks);
}

// The run of the mini-batch that each rank takes, as ranks + 1 offsets.
absl::StatusOr<std::vector<size_t>> ContiguousShards(const Items& items, const PassOptions& pass,
                                                     const AssignmentRules& rules,
                                                     absl::string_view where) {
  if (!pass.equal_sequence_counts) return CutIntoRuns(items.loads, rules.ranks);
  if (items.size() % rules.ranks != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(where, " has ", items.size(), " sequences, which data_parallel ", rules.ranks,
                     " does not divide, but equal_sequence_counts is set"));
  }
  std::vector<size_t> offsets(rules.ranks + 1);
  for (size_t rank = 0; rank <= rules.ranks; ++rank) {
    offsets[rank] = rank * (items.size() / rules.ranks);
  }
  return offsets;
}

absl::StatusOr<Assignment> ShardThenFill(const Items& items, const PassOptions& pass,
                                         const AssignmentRules& rules, absl::string_view where) {
  if (items.size() < rules.ranks) {
    return TooFewSequences(where, items.size(), rules.ranks * rules.counts.RoundUp(1), rules);
  }
  const absl::StatusOr<std::vector<size_t>> shards = ContiguousShards(items, pass, rules, where);
  if (!shards.ok()) return shards.status();
  const auto shard = [&](uint32_t rank) {
    return items.Slice((*shards)[rank], (*shards)[rank + 1] - (*shards)[rank]);
  };

  std::vector<Bins> filled;
  size_t most = 0;
  for (uint32_t rank = 0; rank < rules.ranks; ++rank) {
    filled.push_back(
        Pack(pass.packer, shard(rank).lengths, rules.limits, RankSeed(rules.seed, rank)));
    most = std::max(most, filled.back().size());
  }

  Assignment assignment;
  const uint64_t slots = rules.counts.RoundUp(most);
  std::vector<uint32_t> placed;
  for (uint32_t rank = 0; rank < rules.ranks; ++rank) {
    const Items mine = shard(rank);
    if (slots > mine.size()) {
      return absl::InvalidArgumentError(absl::StrCat(
          where, ": rank ", rank, " has ", mine.size(), " sequences, but needs ", slots,
          " micro-batches of one or more, as every rank of data_parallel ", rules.ranks,
          " (at least ", rules.counts.minimum, ", a multiple of ", rules.counts.multiple, ")"));
    }
    const Bins bins = SplitToCount(filled[rank], slots, 1, mine, rules.limits);
    for (size_t bin = 0; bin < bins.size(); ++bin) {
      placed.assign(bins[bin].begin(), bins[bin].end());
      for (uint32_t& item : placed) item += static_cast<uint32_t>((*shards)[rank]);
      assignment.bins.Add(placed);
    }
  }
  assignment.slots = static_cast<uint32_t>(slots);
  assignment.bin_at.resize(assignment.bins.size());
  std::iota(assignment.bin_at.begin(), assignment.bin_at.end(), 0u);
  return assignment;
}

}  // namespace

absl::StatusOr<Assignment> Assign(const Items& items, const PassOptions& pass,
                                  const AssignmentRules& rules, absl::string_view where) {
  return pass.sharding == Sharding::kDealBins ? PackThenDeal(items, pass, rules, where)
                                              : ShardThenFill(items, pass, rules, where);
}

}  // namespace batchplan
