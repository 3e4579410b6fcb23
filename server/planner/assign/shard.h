// Stage 3, assign, its first half: the sequences of a mini-batch to ranks.

#ifndef BATCHPLAN_SERVER_PLANNER_ASSIGN_SHARD_H_
#define BATCHPLAN_SERVER_PLANNER_ASSIGN_SHARD_H_

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/planner/allowance.h"
#include "server/planner/pass_instance.h"
#include "server/planner/sequence_lists.h"

namespace batchplan {

// The blocks of a mini-batch that go to one rank as a whole: groups, or sequences.
struct RankUnits {
  RankUnits(const PassInstance& first_pass, std::span<const SequenceIndex> mini_batch);

  uint32_t size() const { return static_cast<uint32_t>(blocks.size()); }

  SequenceLists blocks;
  std::vector<uint32_t> counts;  // sequences of each
  std::vector<uint64_t> loads;   // what ranks are balanced by
  uint64_t sequences = 0;
};

// The rank of each unit by the first pass's sharding. Where groups stay on a rank
// SHARDING_DEAL_BINS means SHARDING_LPT of whole groups: bins would tear them.
//
// InvalidArgument, beginning with `where` and naming both numbers, if the sharding or
// equal_sequence_counts asks for a division that doesn't come out even; Cancelled if none is found
// before a stop is requested.
absl::StatusOr<std::vector<uint32_t>> ShardUnits(const PassInstance& first_pass,
                                                 const RankUnits& units, absl::string_view where,
                                                 const Allowance& allowance);

// The same number of units for each rank, or one more: contiguous where the pass's sharding is,
// otherwise the heaviest first, each round's to the lightest rank. A sharding for when ShardUnits'
// leaves a rank with too little.
std::vector<uint32_t> ShardEvenly(const PassInstance& first_pass, const RankUnits& units);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_ASSIGN_SHARD_H_
