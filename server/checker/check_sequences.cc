#include "server/checker/check_sequences.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "server/checker/stated_metrics.h"
#include "server/checker/violation.h"

namespace batchplan::checker {

absl::Status CheckExclusions(const RequestDemands& demands, const Plan& plan) {
  for (size_t e = 0; e < plan.excluded.size(); ++e) {
    const ExcludedSequence& listed = plan.excluded[e];
    if (e > 0 && listed.index <= plan.excluded[e - 1].index) {
      return Violation("excluded[", e, "].index is ", listed.index, ", not above ",
                       plan.excluded[e - 1].index, " before it");
    }
    if (e >= demands.excluded.size() || listed.index < demands.excluded[e].index) {
      return Violation("excluded[", e, "] lists sequence ", listed.index,
                       ", which the overlong policy does not touch at the length limit ",
                       demands.length_limit);
    }
    const ExcludedSequence& wanted = demands.excluded[e];
    if (listed.index > wanted.index) {
      return Violation("excluded[", e, "] lists sequence ", listed.index,
                       ", but the overlong policy touches sequence ", wanted.index, " of ",
                       wanted.length, " tokens before it");
    }
    if (listed.length != wanted.length) {
      return Violation("excluded[", e, "].length is ", listed.length, ", but sequence ",
                       wanted.index, " has ", wanted.length, " tokens");
    }
    if (listed.reason != wanted.reason) {
      return Violation("excluded[", e, "].reason is ", static_cast<uint32_t>(listed.reason),
                       ", but the overlong policy gives ", static_cast<uint32_t>(wanted.reason));
    }
  }
  if (plan.excluded.size() < demands.excluded.size()) {
    const ExcludedSequence& missing = demands.excluded[plan.excluded.size()];
    return Violation("excluded does not list sequence ", missing.index, " of ", missing.length,
                     " tokens, which the overlong policy touches at the length limit ",
                     demands.length_limit);
  }
  return absl::OkStatus();
}

absl::StatusOr<Placement> CheckSequences(const PassUnderCheck& pass,
                                         const std::vector<Microbatch>& microbatches) {
  const std::vector<uint32_t>& planned_lengths = pass.demands.planned_lengths;
  Placement placement(planned_lengths.size(), kNowhere);
  for (size_t m = 0; m < microbatches.size(); ++m) {
    for (size_t p = microbatches[m].begin; p < microbatches[m].end; ++p) {
      const uint32_t sequence = pass.plan.sequence_index[p];
      if (sequence >= planned_lengths.size()) {
        return Violation(Field(pass, "sequence_index", p), " is ", sequence, ", but there are ",
                         planned_lengths.size(), " sequences");
      }
      if (planned_lengths[sequence] == 0) {
        return Violation(Field(pass, "sequence_index", p), " is ", sequence,
                         ", which the overlong policy dropped");
      }
      if (placement[sequence] != kNowhere) {
        return Violation(Field(pass, "sequence_index", p), " is ", sequence, ", which micro-batch ",
                         placement[sequence], " holds already");
      }
      if (pass.plan.sequence_lengths[p] != planned_lengths[sequence]) {
        return Violation(Field(pass, "sequence_lengths", p), " is ", pass.plan.sequence_lengths[p],
                         ", but sequence ", sequence, " is planned with ",
                         planned_lengths[sequence], " tokens");
      }
      placement[sequence] = static_cast<uint32_t>(m);
    }
  }
  for (size_t sequence = 0; sequence < planned_lengths.size(); ++sequence) {
    if (planned_lengths[sequence] != 0 && placement[sequence] == kNowhere) {
      return Violation(Field(pass, "sequence_index"), " lacks sequence ", sequence);
    }
  }
  return placement;
}

absl::Status CheckMiniBatches(const PlacedPass& placed) {
  const auto& [pass, microbatches, placement] = placed;
  if (pass.options.ignore_mini_batches) return absl::OkStatus();
  const RequestDemands& demands = pass.demands;
  std::vector<uint64_t> sizes(pass.plan.microbatches_per_rank.size(), 0);
  std::vector<bool> counted(demands.counts_groups ? demands.group_of.size() : 0, false);
  uint64_t delay = 0;
  uint64_t moved = 0;
  uint64_t planned = 0;
  for (size_t sequence = 0; sequence < placement.size(); ++sequence) {
    if (placement[sequence] == kNowhere) continue;
    const uint32_t mini_batch = microbatches[placement[sequence]].mini_batch;
    if (!demands.counts_groups) {
      ++sizes[mini_batch];
    } else if (!counted[demands.group_of[sequence]]) {
      counted[demands.group_of[sequence]] = true;
      ++sizes[mini_batch];
    }
    if (demands.mini_batch_of.empty()) continue;
    const uint32_t place = demands.mini_batch_of[sequence];
    delay += mini_batch > place ? mini_batch - place : 0;
    moved += mini_batch != place ? 1 : 0;
    ++planned;
    const uint32_t max_delay = pass.request.mini_batches.max_delay;
    // Moving to an earlier mini-batch costs no delay, but max_delay 0 forbids any move.
    if (mini_batch > place ? mini_batch - place > max_delay
                           : max_delay == 0 && mini_batch < place) {
      return Violation("passes[", pass.number, "] has sequence ", sequence, " in mini-batch ",
                       mini_batch, ", but the ",
                       pass.request.mini_batches.order == Order::kStratified ? "order by length"
                                                                             : "manifest's order",
                       " puts it into mini-batch ", place, ", and max_delay is ", max_delay);
    }
  }
  for (size_t k = 0; k < sizes.size(); ++k) {
    if (sizes[k] == 0) {
      return Violation("passes[", pass.number, "] has no sequences in mini-batch ", k);
    }
    // The plan does not record the mini-batch of a dropped sequence. With drops, the size is only a
    // limit.
    const uint64_t wanted = k + 1 < sizes.size() ? demands.mini_batch_size : demands.last_size;
    if (demands.any_dropped ? sizes[k] > wanted : sizes[k] != wanted) {
      return Violation(
          "passes[", pass.number, "] has ", sizes[k],
          demands.counts_groups ? " groups" : " sequences", " in mini-batch ", k,
          ", but mini_batches.", demands.counts_groups ? "group_count" : "size", " is ",
          demands.mini_batch_size,
          wanted == demands.mini_batch_size ? "" : ", of which the last has what is left");
    }
  }
  // The checker does not know where a shuffle puts a sequence.
  if (planned == 0) return absl::OkStatus();
  const auto count = static_cast<double>(planned);
  absl::Status status = CheckNear(pass, "mean_delay", pass.plan.metrics.mean_delay,
                                  static_cast<double>(delay) / count, kTolerance);
  status.Update(CheckNear(pass, "moved_share", pass.plan.metrics.moved_share,
                          static_cast<double>(moved) / count, kTolerance));
  return status;
}

absl::Status CheckGroups(const PlacedPass& placed) {
  const auto& [pass, microbatches, placement] = placed;
  const std::vector<uint32_t>& group_of = pass.demands.group_of;
  if (group_of.empty()) return absl::OkStatus();
  const GroupPolicy policy = pass.request.mini_batches.groups;
  // The first planned member of each group; all others are compared with it.
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
    } else if ((policy == GroupPolicy::kSameRank || policy == GroupPolicy::kSameMicrobatch) &&
               own.rank != leaders.rank) {
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

absl::Status CheckGivenRanks(const PlacedPass& placed) {
  const auto& [pass, microbatches, placement] = placed;
  const std::span<const uint32_t> given = pass.manifest.ranks;
  if (given.empty()) return absl::OkStatus();
  for (size_t sequence = 0; sequence < placement.size(); ++sequence) {
    if (placement[sequence] == kNowhere) continue;
    const uint32_t rank = microbatches[placement[sequence]].rank;
    if (rank != given[sequence]) {
      return Violation("passes[", pass.number, "] has sequence ", sequence, " on rank ", rank,
                       ", but manifest.ranks has it on rank ", given[sequence]);
    }
  }
  return absl::OkStatus();
}

absl::Status CheckEqualCounts(const PlacedPass& placed) {
  const auto& [pass, microbatches, placement] = placed;
  // Later passes leave every sequence on its rank, so that the first pass's option applies to all.
  const EqualCounts asked = pass.request.passes.front().sequence_counts;
  if (asked == EqualCounts::kAny) return absl::OkStatus();
  // Counts within one in every mini-batch may differ by more in all of them together.
  const bool by_mini_batch =
      !std::ranges::all_of(pass.request.passes, &PassOptions::ignore_mini_batches);
  if (asked == EqualCounts::kWithinOne && by_mini_batch && pass.options.ignore_mini_batches) {
    return absl::OkStatus();
  }
  const uint64_t ranks = pass.demands.data_parallel;
  // Indexed by mini-batch, then rank.
  std::vector<uint64_t> counts(pass.plan.microbatches_per_rank.size() * ranks, 0);
  for (const Microbatch& microbatch : microbatches) {
    counts[microbatch.mini_batch * ranks + microbatch.rank] += microbatch.end - microbatch.begin;
  }
  for (size_t first = 0; first < counts.size(); first += ranks) {
    uint64_t all = 0;
    for (uint64_t rank = 0; rank < ranks; ++rank) all += counts[first + rank];
    for (uint64_t rank = 0; rank < ranks; ++rank) {
      const uint64_t own = counts[first + rank];
      if (asked == EqualCounts::kExact && own != counts[first]) {
        return Violation("passes[", pass.number, "] has ", own, " sequences on rank ", rank,
                         " in mini-batch ", first / ranks, ", but ", counts[first],
                         " on rank 0, and equal_sequence_counts is set");
      }
      if (asked == EqualCounts::kWithinOne &&
          (own * ranks + ranks <= all || own * ranks >= all + ranks)) {
        return Violation("passes[", pass.number, "] has ", own, " sequences on rank ", rank,
                         " in mini-batch ", first / ranks, " of ", all, ", and ", ranks,
                         " ranks are to have as many within one");
      }
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
    if (after.ranks != before.ranks) {
      return Violation("passes[", later.pass.number, "] has sequence ", sequence, " on ",
                       after.ranks, " ranks, but passes[", first.pass.number, "] has it on ",
                       before.ranks);
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
