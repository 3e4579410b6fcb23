#include "server/checker/check_rows.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>

#include "server/checker/violation.h"

namespace batchplan::checker {
namespace {

// The content of a micro-batch's row.
struct Content {
  // The sum of the aligned lengths. If sequences share tokens: the tokens in the row, aligned as a
  // whole.
  uint64_t aligned_tokens = 0;
  uint64_t longest_aligned = 0;
  // Whether it is a single sequence above the budget, listed as alone.
  bool alone = false;
};

Content ContentOf(const PassUnderCheck& pass, const Microbatch& microbatch) {
  Content content;
  const uint32_t multiple = pass.pass_demands.length_multiple;
  uint64_t laid = 0;
  for (size_t p = microbatch.begin; p < microbatch.end; ++p) {
    const uint32_t length = pass.plan.sequence_lengths[p];
    const uint64_t aligned = AlignedLength(length, multiple);
    content.aligned_tokens += aligned;
    content.longest_aligned = std::max(content.longest_aligned, aligned);
    if (pass.paths != nullptr) laid += length - pass.plan.shared_tokens[p];
  }
  if (pass.paths != nullptr) content.aligned_tokens = AlignedLength(laid, multiple);
  content.alone = microbatch.size() == 1 &&
                  pass.IsOverlong(pass.plan.sequence_lengths[microbatch.begin]) &&
                  IsListedAsAlone(pass.demands, pass.plan.sequence_index[microbatch.begin]);
  return content;
}

absl::Status CheckBudget(const PassUnderCheck& pass, size_t m, const Microbatch& microbatch,
                         const Content& content) {
  const uint64_t width = pass.plan.row_widths[m];
  const uint64_t budget = pass.options.max_tokens_per_microbatch;
  const uint64_t max_sequences = pass.options.max_sequences_per_microbatch;
  if (max_sequences != 0 && microbatch.size() > max_sequences) {
    return Violation("passes[", pass.number, "] micro-batch ", m, " has ", microbatch.size(),
                     " sequences, above max_sequences_per_microbatch ", max_sequences);
  }
  const uint64_t multiple = std::max<uint32_t>(1, pass.options.sequence_count_multiple);
  if (microbatch.size() % multiple != 0) {
    return Violation("passes[", pass.number, "] micro-batch ", m, " has ", microbatch.size(),
                     " sequences, not a multiple of sequence_count_multiple ", multiple);
  }
  if (content.alone) {
    if (width != content.aligned_tokens) {
      return Violation(Field(pass, "row_widths", m), " is ", width,
                       ", but the sequence that runs alone there has ", content.aligned_tokens,
                       " aligned tokens");
    }
    return absl::OkStatus();
  }
  if (pass.options.layout == Layout::kPadded) {
    if (width < content.longest_aligned) {
      return Violation(Field(pass, "row_widths", m), " is ", width,
                       ", below its longest aligned sequence of ", content.longest_aligned,
                       " tokens");
    }
    if (microbatch.size() * width > budget) {
      return Violation(Field(pass, "row_widths", m), " is ", width, ", and ", microbatch.size(),
                       " sequences of it are ", microbatch.size() * width,
                       " tokens, above max_tokens_per_microbatch ", budget);
    }
  } else {
    if (width > budget) {
      return Violation(Field(pass, "row_widths", m), " is ", width,
                       ", above max_tokens_per_microbatch ", budget);
    }
    if (width < content.aligned_tokens) {
      return Violation(Field(pass, "row_widths", m), " is ", width, ", below its ",
                       content.aligned_tokens, " aligned tokens");
    }
  }
  if (width % pass.pass_demands.length_multiple != 0) {
    return Violation(Field(pass, "row_widths", m), " is ", width,
                     ", not a multiple of the length multiple ", pass.pass_demands.length_multiple);
  }
  return absl::OkStatus();
}

// The width that RowPadding gives a row with `aligned_tokens`; `longest` is the longest row beside
// it, and `limit` what its group holds. 0 if no bucket is large enough.
uint64_t PaddedRowWidth(RowPadding rows, uint64_t aligned_tokens, uint64_t longest, uint64_t limit,
                        const std::vector<uint32_t>& sorted_buckets) {
  switch (rows) {
    case RowPadding::kNone:
      return aligned_tokens;
    case RowPadding::kLongest:
      return longest;
    case RowPadding::kCapacity:
      return limit;
    case RowPadding::kBuckets: {
      const auto bucket =
          std::lower_bound(sorted_buckets.begin(), sorted_buckets.end(), aligned_tokens);
      return bucket == sorted_buckets.end() ? 0 : *bucket;
    }
  }
  return aligned_tokens;
}

// Ranks may share a width, but it must not exceed the longest sequence of the mini-batch.
absl::Status CheckSharedWidths(const PassUnderCheck& pass,
                               const std::vector<Microbatch>& microbatches,
                               const std::vector<uint64_t>& longest_of_mini_batch) {
  for (size_t m = 0; m < microbatches.size(); ++m) {
    const uint64_t longest = longest_of_mini_batch[microbatches[m].mini_batch];
    if (pass.plan.row_widths[m] <= longest) continue;
    return Violation(Field(pass, "row_widths", m), " is ", pass.plan.row_widths[m],
                     ", above the longest aligned sequence of mini-batch ",
                     microbatches[m].mini_batch, ", ", longest, " tokens");
  }
  return absl::OkStatus();
}

const GroupDemands& SizeOf(const PassUnderCheck& pass, const Microbatch& microbatch) {
  return *std::ranges::find(pass.pass_demands.groups, microbatch.ranks, &GroupDemands::ranks);
}

// Checks rows of groups that differ in size: each size has its alignment, budget and buckets.
absl::Status CheckGroupRows(const PassUnderCheck& pass,
                            const std::vector<Microbatch>& microbatches) {
  const uint64_t max_sequences = pass.options.max_sequences_per_microbatch;
  std::vector<uint64_t> aligned_tokens(microbatches.size(), 0);
  // Keyed by mini-batch and size of the group.
  std::map<std::pair<uint32_t, uint32_t>, uint64_t> longest;
  for (size_t m = 0; m < microbatches.size(); ++m) {
    const Microbatch& microbatch = microbatches[m];
    const GroupDemands& size = SizeOf(pass, microbatch);
    for (size_t p = microbatch.begin; p < microbatch.end; ++p) {
      aligned_tokens[m] += AlignedLength(pass.plan.sequence_lengths[p], size.length_multiple);
    }
    uint64_t& longest_row = longest[{microbatch.mini_batch, size.ranks}];
    longest_row = std::max(longest_row, aligned_tokens[m]);
    if (aligned_tokens[m] > size.length_limit) {
      return Violation("passes[", pass.number, "] micro-batch ", m, " has ", aligned_tokens[m],
                       " aligned tokens, above the ", size.length_limit, " tokens that a group of ",
                       size.ranks, " ranks holds");
    }
    if (max_sequences != 0 && microbatch.size() > max_sequences) {
      return Violation("passes[", pass.number, "] micro-batch ", m, " has ", microbatch.size(),
                       " sequences, above max_sequences_per_microbatch ", max_sequences);
    }
  }
  for (size_t m = 0; m < microbatches.size(); ++m) {
    const GroupDemands& size = SizeOf(pass, microbatches[m]);
    const uint64_t wanted = microbatches[m].empty()
                                ? 0
                                : PaddedRowWidth(pass.options.rows, aligned_tokens[m],
                                                 longest[{microbatches[m].mini_batch, size.ranks}],
                                                 size.length_limit, size.buckets);
    if (pass.plan.row_widths[m] != wanted || wanted < aligned_tokens[m]) {
      return Violation(Field(pass, "row_widths", m), " is ", pass.plan.row_widths[m],
                       ", but row padding gives ", wanted, " for its ", aligned_tokens[m],
                       " tokens, as a group of ", size.ranks,
                       " ranks aligns them, to multiples of ", size.length_multiple);
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckRows(const PassUnderCheck& pass, const std::vector<Microbatch>& microbatches) {
  const PassPlan& plan = pass.plan;
  if (plan.length_multiple != pass.pass_demands.length_multiple) {
    return Violation(Field(pass, "length_multiple"), " is ", plan.length_multiple,
                     ", but the request and its topology give ", pass.pass_demands.length_multiple);
  }
  if (!pass.pass_demands.groups.empty()) return CheckGroupRows(pass, microbatches);
  std::vector<uint64_t> aligned_tokens(microbatches.size(), 0);
  std::vector<bool> alone(microbatches.size(), false);
  // The longest row if packed, the longest sequence if padded.
  std::vector<uint64_t> longest_of_mini_batch(plan.microbatches_per_rank.size(), 0);
  for (size_t m = 0; m < microbatches.size(); ++m) {
    const Microbatch& microbatch = microbatches[m];
    if (microbatch.empty()) {
      if (plan.row_widths[m] != 0) {
        return Violation(Field(pass, "row_widths", m), " is ", plan.row_widths[m],
                         ", but the micro-batch is empty");
      }
      continue;
    }
    const Content content = ContentOf(pass, microbatch);
    if (absl::Status status = CheckBudget(pass, m, microbatch, content); !status.ok()) {
      return status;
    }
    aligned_tokens[m] = content.aligned_tokens;
    alone[m] = content.alone;
    uint64_t& longest = longest_of_mini_batch[microbatch.mini_batch];
    longest = std::max(longest, pass.options.layout == Layout::kPadded ? content.longest_aligned
                                                                       : content.aligned_tokens);
  }
  if (pass.options.layout == Layout::kPadded) {
    return CheckSharedWidths(pass, microbatches, longest_of_mini_batch);
  }

  std::vector<uint32_t> sorted_buckets = pass.options.buckets;
  std::sort(sorted_buckets.begin(), sorted_buckets.end());
  const uint64_t budget = pass.options.max_tokens_per_microbatch;
  const uint64_t capacity = budget - budget % pass.pass_demands.length_multiple;
  for (size_t m = 0; m < microbatches.size(); ++m) {
    if (microbatches[m].empty() || alone[m]) continue;
    const uint64_t wanted =
        PaddedRowWidth(pass.options.rows, aligned_tokens[m],
                       longest_of_mini_batch[microbatches[m].mini_batch], capacity, sorted_buckets);
    if (plan.row_widths[m] != wanted) {
      return Violation(Field(pass, "row_widths", m), " is ", plan.row_widths[m],
                       ", but row padding gives ", wanted, " for its ", aligned_tokens[m],
                       " aligned tokens");
    }
  }
  return absl::OkStatus();
}

}  // namespace batchplan::checker
