#include "server/checker/check_shape.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "server/checker/violation.h"

namespace batchplan::checker {
namespace {

absl::Status CheckArraySizes(const PassUnderCheck& pass) {
  const PassPlan& plan = pass.plan;
  if (plan.sequence_lengths.size() != plan.sequence_index.size()) {
    return Violation(Field(pass, "sequence_lengths"), " has ", plan.sequence_lengths.size(),
                     " entries, but sequence_index has ", plan.sequence_index.size());
  }
  if (plan.microbatch_offsets.empty()) {
    return Violation(Field(pass, "microbatch_offsets"), " is empty");
  }
  if (plan.row_widths.size() != plan.microbatch_offsets.size() - 1) {
    return Violation(Field(pass, "row_widths"), " has ", plan.row_widths.size(),
                     " entries, but there are ", plan.microbatch_offsets.size() - 1,
                     " micro-batches");
  }
  const size_t sized = pass.pass_demands.groups.empty() ? 0 : plan.row_widths.size();
  if (plan.context_sizes.size() != sized) {
    return Violation(Field(pass, "context_sizes"), " has ", plan.context_sizes.size(),
                     " entries, but ",
                     sized == 0 ? "topology.dynamic_context is not set"
                                : absl::StrCat("there are ", sized, " micro-batches"));
  }
  const size_t sharing = pass.paths == nullptr ? 0 : plan.sequence_index.size();
  if (plan.shared_tokens.size() != sharing) {
    return Violation(Field(pass, "shared_tokens"), " has ", plan.shared_tokens.size(),
                     " entries, but ",
                     pass.paths != nullptr ? absl::StrCat("sequence_index has ", sharing)
                     : pass.options.ignore_shared_prefixes ? "ignore_shared_prefixes is set"
                                                           : "no two sequences share anything");
  }
  if (plan.microbatches_per_rank.size() != pass.pass_demands.mini_batches) {
    return Violation(Field(pass, "microbatches_per_rank"), " has ",
                     plan.microbatches_per_rank.size(), " entries, but there are ",
                     pass.pass_demands.mini_batches, " mini-batches");
  }
  return absl::OkStatus();
}

absl::Status CheckOffsets(const PassUnderCheck& pass) {
  const std::vector<uint32_t>& offsets = pass.plan.microbatch_offsets;
  if (offsets.front() != 0) {
    return Violation(Field(pass, "microbatch_offsets", 0), " is ", offsets.front(), ", not 0");
  }
  for (size_t m = 1; m < offsets.size(); ++m) {
    if (offsets[m] < offsets[m - 1]) {
      return Violation(Field(pass, "microbatch_offsets", m), " is ", offsets[m], ", below ",
                       offsets[m - 1], " before it");
    }
  }
  if (offsets.back() != pass.plan.sequence_index.size()) {
    return Violation(Field(pass, "microbatch_offsets"), " ends at ", offsets.back(),
                     ", but sequence_index has ", pass.plan.sequence_index.size(), " entries");
  }
  return absl::OkStatus();
}

absl::Status CheckCounts(const PassUnderCheck& pass) {
  const std::vector<uint32_t>& counts = pass.plan.microbatches_per_rank;
  const uint64_t microbatches = pass.plan.row_widths.size();
  uint64_t sum = 0;
  for (size_t k = 0; k < counts.size(); ++k) {
    const uint64_t count = counts[k];
    if (count < pass.pass_demands.min_microbatches) {
      return Violation(Field(pass, "microbatches_per_rank", k), " is ", count,
                       ", below the minimum ", pass.pass_demands.min_microbatches);
    }
    if (count % pass.pass_demands.count_multiple != 0) {
      return Violation(Field(pass, "microbatches_per_rank", k), " is ", count,
                       ", not a multiple of ", pass.pass_demands.count_multiple);
    }
    // ListGroups checks how many groups a slot has.
    sum += count * (pass.pass_demands.groups.empty() ? pass.demands.data_parallel : 1);
    // Compared after every step, so that the sum can't overflow.
    if (sum > microbatches) break;
  }
  if (!pass.pass_demands.groups.empty()) return absl::OkStatus();
  if (sum != microbatches) {
    return Violation(Field(pass, "microbatches_per_rank"), " over ", pass.demands.data_parallel,
                     " ranks gives ", sum > microbatches ? "more than " : "",
                     sum > microbatches ? microbatches : sum, " micro-batches, but row_widths has ",
                     microbatches);
  }
  return absl::OkStatus();
}

std::vector<Microbatch> ListMicrobatches(const PassUnderCheck& pass) {
  const PassPlan& plan = pass.plan;
  std::vector<Microbatch> microbatches;
  microbatches.reserve(plan.row_widths.size());
  for (uint32_t k = 0; k < plan.microbatches_per_rank.size(); ++k) {
    for (uint32_t rank = 0; rank < pass.demands.data_parallel; ++rank) {
      for (uint32_t slot = 0; slot < plan.microbatches_per_rank[k]; ++slot) {
        const size_t m = microbatches.size();
        microbatches.push_back(
            {k, rank, slot, plan.microbatch_offsets[m], plan.microbatch_offsets[m + 1]});
      }
    }
  }
  return microbatches;
}

// Lists the micro-batches of a pool's slots. In each slot groups have allowed sizes in descending
// order and cover every rank.
absl::StatusOr<std::vector<Microbatch>> ListGroups(const PassUnderCheck& pass) {
  const PassPlan& plan = pass.plan;
  const std::vector<GroupDemands>& sizes = pass.pass_demands.groups;
  std::vector<Microbatch> microbatches;
  microbatches.reserve(plan.row_widths.size());
  for (uint32_t k = 0; k < plan.microbatches_per_rank.size(); ++k) {
    for (uint32_t slot = 0; slot < plan.microbatches_per_rank[k]; ++slot) {
      uint64_t first = 0;
      while (first < pass.demands.pool) {
        const size_t m = microbatches.size();
        if (m == plan.context_sizes.size()) {
          return Violation(Field(pass, "context_sizes"), " ends in slot ", slot, " of mini-batch ",
                           k, " with ", pass.demands.pool - first, " ranks of the pool without a ",
                           "group");
        }
        const uint32_t ranks = plan.context_sizes[m];
        if (std::none_of(sizes.begin(), sizes.end(),
                         [&](const GroupDemands& size) { return size.ranks == ranks; })) {
          return Violation(Field(pass, "context_sizes", m), " is ", ranks,
                           ", which topology.dynamic_context does not allow");
        }
        if (first > 0 && ranks > microbatches.back().ranks) {
          return Violation(Field(pass, "context_sizes", m), " is ", ranks, ", above ",
                           microbatches.back().ranks, " before it in slot ", slot,
                           " of mini-batch ", k);
        }
        if (ranks > pass.demands.pool - first) {
          return Violation(Field(pass, "context_sizes", m), " is ", ranks, ", but slot ", slot,
                           " of mini-batch ", k, " has ", pass.demands.pool - first,
                           " ranks of the pool left");
        }
        microbatches.push_back({k, static_cast<uint32_t>(first), slot, plan.microbatch_offsets[m],
                                plan.microbatch_offsets[m + 1], ranks});
        first += ranks;
      }
    }
  }
  if (microbatches.size() != plan.context_sizes.size()) {
    return Violation(Field(pass, "microbatches_per_rank"), " gives slots of ", microbatches.size(),
                     " groups, but context_sizes has ", plan.context_sizes.size());
  }
  return microbatches;
}

absl::Status CheckEmptyMicrobatches(const PassUnderCheck& pass,
                                    const std::vector<Microbatch>& microbatches) {
  for (size_t m = 0; m < microbatches.size(); ++m) {
    const Microbatch& microbatch = microbatches[m];
    if (microbatch.empty() && !pass.request.allow_empty_microbatches) {
      return Violation("passes[", pass.number, "] micro-batch ", m, " is empty (mini-batch ",
                       microbatch.mini_batch, ", rank ", microbatch.rank, ", slot ",
                       microbatch.slot, "), and empty ones are not allowed");
    }
    // In a pool, ranks have different last slots.
    if (!pass.pass_demands.groups.empty()) continue;
    if (!microbatch.empty() && microbatch.slot > 0 && microbatches[m - 1].empty()) {
      return Violation("passes[", pass.number, "] micro-batch ", m - 1,
                       " is empty, but not in the last slots of rank ", microbatch.rank,
                       " in mini-batch ", microbatch.mini_batch);
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<Microbatch>> CheckShape(const PassUnderCheck& pass) {
  if (pass.plan.name != pass.options.name) {
    return Violation(Field(pass, "name"), " is \"", pass.plan.name, "\", but the request says \"",
                     pass.options.name, "\"");
  }
  if (absl::Status status = CheckArraySizes(pass); !status.ok()) return status;
  if (absl::Status status = CheckOffsets(pass); !status.ok()) return status;
  if (absl::Status status = CheckCounts(pass); !status.ok()) return status;
  absl::StatusOr<std::vector<Microbatch>> microbatches =
      pass.pass_demands.groups.empty() ? ListMicrobatches(pass) : ListGroups(pass);
  if (!microbatches.ok()) return microbatches.status();
  if (absl::Status status = CheckEmptyMicrobatches(pass, *microbatches); !status.ok()) {
    return status;
  }
  return microbatches;
}

}  // namespace batchplan::checker
