#include "server/planner/request/pass_option_checks.h"

#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace batchplan {
namespace {

absl::Status CheckBuckets(const PassOptions& pass, absl::string_view where) {
  if (pass.rows != RowPadding::kBuckets) {
    if (pass.buckets.empty()) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat(where, ".packed.buckets has ", pass.buckets.size(),
                     " widths, but only ROW_PADDING_BUCKETS uses them; set packed.rows to it, or "
                     "leave them out"));
  }
  if (pass.buckets.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        where, ".packed.buckets is empty; ROW_PADDING_BUCKETS needs at least one width"));
  }
  for (size_t i = 0; i < pass.buckets.size(); ++i) {
    const uint32_t bucket = pass.buckets[i];
    if (bucket == 0 || bucket > pass.max_tokens_per_microbatch) {
      return absl::InvalidArgumentError(absl::StrCat(
          where, ".packed.buckets[", i, "] is ", bucket,
          "; it must be between 1 and max_tokens_per_microbatch ", pass.max_tokens_per_microbatch));
    }
    if (i > 0 && bucket <= pass.buckets[i - 1]) {
      return absl::InvalidArgumentError(absl::StrCat(where, ".packed.buckets[", i, "] is ", bucket,
                                                     ", not above the one before it, ",
                                                     pass.buckets[i - 1]));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckPass(const PassOptions& pass, absl::string_view where) {
  if (pass.max_tokens_per_microbatch == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(where, ".max_tokens_per_microbatch is 0; it must be at least 1"));
  }
  if (pass.length_multiple == 0 || pass.min_microbatches == 0 ||
      pass.microbatch_count_multiple == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(where, ": length_multiple ", pass.length_multiple, ", min_microbatches ",
                     pass.min_microbatches, " and microbatch_count_multiple ",
                     pass.microbatch_count_multiple, " must be at least 1"));
  }
  return CheckBuckets(pass, where);
}

// Checks how sequences get to ranks, which the first pass decides for all.
absl::Status CheckSharding(const PassOptions& first, GroupPolicy groups) {
  constexpr absl::string_view where = "passes[0]";
  const bool is_of_trees = IsOfTrees(first.sharding);
  if (first.sharding != Sharding::kDealBins && !is_of_trees) return absl::OkStatus();
  if (first.layout == Layout::kPadded) {
    return absl::InvalidArgumentError(
        absl::StrCat(where, ".sharding is ", NameOf(first.sharding), ", which deals packed ",
                     is_of_trees ? "rows" : "bins", "; the layout is padded"));
  }
  if (first.keeps_counts()) {
    return absl::InvalidArgumentError(
        absl::StrCat(where, ".", AskedAs(first.sequence_counts), ", but ", NameOf(first.sharding),
                     " deals whole ", is_of_trees ? "rows" : "bins",
                     " and can't keep it; use a sharding that assigns sequences"));
  }
  if (is_of_trees && (groups == GroupPolicy::kSameRank || groups == GroupPolicy::kSameMicrobatch)) {
    return absl::InvalidArgumentError(
        absl::StrCat("mini_batches.groups keeps groups on a rank, but ", where, ".sharding is ",
                     NameOf(first.sharding), ", which tears them; set one of them otherwise"));
  }
  return absl::OkStatus();
}

// Checks that a sequence that runs alone, in a row above the budget, does not affect others: it
// must neither widen their rows nor leave its group.
absl::Status CheckAlone(const PlanOptions& options) {
  if (options.overlong != OverlongPolicy::kAlone) return absl::OkStatus();
  if (options.mini_batches.groups == GroupPolicy::kSameMicrobatch) {
    return absl::InvalidArgumentError(
        "overlong is OVERLONG_POLICY_ALONE, but mini_batches.groups is "
        "GROUP_POLICY_SAME_MICROBATCH, and no sequence of a group runs alone; use another of the "
        "two");
  }
  for (size_t i = 0; i < options.passes.size(); ++i) {
    const PassOptions& pass = options.passes[i];
    if (pass.layout == Layout::kPacked && pass.rows == RowPadding::kLongest) {
      return absl::InvalidArgumentError(absl::StrCat(
          "overlong is OVERLONG_POLICY_ALONE, but passes[", i,
          "].packed.rows is ROW_PADDING_LONGEST, as the preset nemo_rl_packing has it for "
          "pipelines: rows would be as wide as one above max_tokens_per_microbatch ",
          pass.max_tokens_per_microbatch, "; use other rows"));
    }
    if (SharesWidths(pass, options.passes[0].sharding)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "overlong is OVERLONG_POLICY_ALONE, but passes[", i,
          "].padded.scan is SCAN_SORTED under SHARDING_STRIDE_SORTED, as the presets "
          "nemo_rl_dynamic and roll_dynamic have it: ranks share widths, and would share one above "
          "max_tokens_per_microbatch ",
          pass.max_tokens_per_microbatch, "; use SCAN_OPTIMAL or another sharding"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckPasses(const PlanOptions& options) {
  const std::vector<PassOptions>& passes = options.passes;
  if (passes.empty()) return absl::InvalidArgumentError("passes is empty; at least one is needed");
  if (passes.size() > kMaxPasses) {
    return absl::InvalidArgumentError(
        absl::StrCat("passes has ", passes.size(), " entries; the limit is ", kMaxPasses));
  }
  std::set<absl::string_view> names;
  for (size_t i = 0; i < passes.size(); ++i) {
    const std::string where = absl::StrCat("passes[", i, "]");
    if (!names.insert(passes[i].name).second) {
      return absl::InvalidArgumentError(
          absl::StrCat(where, ".name is \"", absl::Utf8SafeCEscape(passes[i].name),
                       "\", which an earlier pass has; names are unique"));
    }
    if (absl::Status status = CheckPass(passes[i], where); !status.ok()) return status;
  }
  absl::Status status = CheckSharding(passes.front(), options.mini_batches.groups);
  return status.ok() ? CheckAlone(options) : status;
}

}  // namespace batchplan
