#include "server/checker/check_mini_batches.h"

#include <cstddef>
#include <cstdint>

#include "server/checker/violation.h"

namespace batchplan::checker {

absl::Status CheckMiniBatches(const PlacedPass& placed) {
  const auto& [pass, microbatches, placement] = placed;
  if (pass.options.ignore_mini_batches) return absl::OkStatus();
  const Expectation& expected = pass.expected;
  std::vector<uint64_t> sizes(pass.plan.microbatches_per_rank.size(), 0);
  for (size_t sequence = 0; sequence < placement.size(); ++sequence) {
    if (placement[sequence] == kNowhere) continue;
    const uint32_t mini_batch = microbatches[placement[sequence]].mini_batch;
    ++sizes[mini_batch];
    if (!expected.mini_batch_of.empty() && mini_batch != expected.mini_batch_of[sequence]) {
      return Violation("passes[", pass.number, "] has sequence ", sequence, " in mini-batch ",
                       mini_batch, ", but the manifest's order puts it into mini-batch ",
                       expected.mini_batch_of[sequence]);
    }
  }
  for (size_t k = 0; k < sizes.size(); ++k) {
    if (sizes[k] == 0) {
      return Violation("passes[", pass.number, "] has no sequences in mini-batch ", k);
    }
    // Which mini-batch a dropped sequence was in is not recorded; then the size is an upper limit.
    const bool wrong = expected.any_dropped ? sizes[k] > expected.mini_batch_size
                                            : sizes[k] != expected.mini_batch_size;
    if (wrong) {
      return Violation("passes[", pass.number, "] has ", sizes[k], " sequences in mini-batch ", k,
                       ", but mini_batches.size is ", expected.mini_batch_size);
    }
  }
  return absl::OkStatus();
}

absl::Status CheckGroups(const PlacedPass& placed) {
  const auto& [pass, microbatches, placement] = placed;
  const std::vector<uint32_t>& group_of = pass.expected.group_of;
  if (group_of.empty()) return absl::OkStatus();
  const GroupPolicy policy = pass.request.mini_batches.groups;
  // Each group's first planned member, to which all others are compared.
  std::vector<uint32_t> leader_of(group_of.size(), kNowhere);
  for (size_t sequence = 0; sequence < placement.size(); ++sequence) {
    if (placement[sequence] == kNowhere) continue;
    uint32_t& leader = leader_of[group_of[sequence]];
    if (leader == kNowhere) leader = static_cast<uint32_t>(sequence);
    const Microbatch& own = microbatches[placement[sequence]];
    const Microbatch& leaders = microbatches[placement[leader]];
    const char* torn = nullptr;
    if (own.mini_batch != leaders.mini_batch) {
      torn = "mini-batch";
    } else if (policy != GroupPolicy::kSameMiniBatch && own.rank != leaders.rank) {
      torn = "rank";
    } else if (policy == GroupPolicy::kSameMicrobatch && placement[sequence] != placement[leader]) {
      torn = "micro-batch";
    }
    if (torn != nullptr) {
      return Violation("passes[", pass.number, "] has sequences ", leader, " and ", sequence,
                       " of group ", pass.manifest.group_ids[sequence],
                       " apart, which must be in the same ", torn);
    }
  }
  return absl::OkStatus();
}

absl::Status CheckEqualCounts(const PlacedPass& placed) {
  const auto& [pass, microbatches, placement] = placed;
  // Later passes leave every sequence on its rank, so that what the first says holds for all.
  if (!pass.request.passes.front().equal_sequence_counts) return absl::OkStatus();
  // Micro-batches stand mini-batch by mini-batch and rank by rank, so each rank's are a run.
  size_t first_count = 0;  // of rank 0 in the current mini-batch
  size_t m = 0;
  while (m < microbatches.size()) {
    const uint32_t mini_batch = microbatches[m].mini_batch;
    const uint32_t rank = microbatches[m].rank;
    const size_t begin = microbatches[m].begin;
    size_t end = begin;
    for (; m < microbatches.size() && microbatches[m].mini_batch == mini_batch &&
           microbatches[m].rank == rank;
         ++m) {
      end = microbatches[m].end;
    }
    if (rank == 0) first_count = end - begin;
    if (end - begin != first_count) {
      return Violation("passes[", pass.number, "] has ", end - begin, " sequences on rank ", rank,
                       " in mini-batch ", mini_batch, ", but ", first_count,
                       " on rank 0, and equal_sequence_counts is set");
    }
  }
  return absl::OkStatus();
}

absl::Status CheckSameRanks(const PlacedPass& first, const PlacedPass& later) {
  const bool same_mini_batches =
      !first.pass.options.ignore_mini_batches && !later.pass.options.ignore_mini_batches;
  for (size_t sequence = 0; sequence < first.placement.size(); ++sequence) {
    if (first.placement[sequence] == kNowhere) continue;
    const Microbatch& before = first.microbatches[first.placement[sequence]];
    const Microbatch& after = later.microbatches[later.placement[sequence]];
    if (after.rank != before.rank) {
      return Violation("passes[", later.pass.number, "] has sequence ", sequence, " on rank ",
                       after.rank, ", but passes[", first.pass.number, "] has it on rank ",
                       before.rank);
    }
    if (same_mini_batches && after.mini_batch != before.mini_batch) {
      return Violation("passes[", later.pass.number, "] has sequence ", sequence, " in mini-batch ",
                       after.mini_batch, ", but passes[", first.pass.number,
                       "] has it in mini-batch ", before.mini_batch);
    }
  }
  return absl::OkStatus();
}

}  // namespace batchplan::checker
