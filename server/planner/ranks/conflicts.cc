#include "server/planner/ranks/conflicts.h"

#include <string>

#include "absl/strings/str_cat.h"

namespace batchplan {
namespace {

// "3 groups", "1 sequence".
std::string Count(uint64_t count, bool groups) {
  return absl::StrCat(count, groups ? " group" : " sequence", count == 1 ? "" : "s");
}

// What micro-batches are made of.
std::string CountItems(const Pass& pass, uint64_t items) {
  if (pass.row_multiple() == 1) return Count(items, pass.groups_keep_microbatch());
  return absl::StrCat(items, " times ", pass.row_multiple(),
                      " sequences (sequence_count_multiple)");
}

// What ranks are made of.
std::string CountUnits(const Pass& pass, uint64_t units) {
  if (pass.rank_multiple() == 1) return Count(units, pass.groups_keep_rank());
  return absl::StrCat(units, " times ", pass.rank_multiple(),
                      " sequences (sequence_count_multiple)");
}

// What decides on the micro-batches of each rank.
std::string Limits(const Pass& pass) {
  const PassOptions& options = pass.options();
  std::string text = absl::StrCat("max_tokens_per_microbatch ", options.max_tokens_per_microbatch);
  if (options.max_sequences_per_microbatch > 0) {
    absl::StrAppend(&text, ", max_sequences_per_microbatch ", options.max_sequences_per_microbatch);
  }
  for (const LoadLimit& limit : options.limits) {
    absl::StrAppend(&text, ", max_per_microbatch ", limit.max_per_microbatch, " of load ",
                    QuotedLoad(limit.load));
  }
  absl::StrAppend(&text, ", min_microbatches ", options.min_microbatches,
                  ", microbatch_count_multiple ", options.microbatch_count_multiple);
  if (pass.counts().multiple != options.microbatch_count_multiple) {
    absl::StrAppend(&text, ", with pipeline_parallel a multiple of ", pass.counts().multiple);
  }
  return text;
}

}  // namespace

absl::Status TooFewItems(const Pass& pass, size_t items, uint64_t per_rank,
                         absl::string_view where) {
  return absl::InvalidArgumentError(
      absl::StrCat(where, " has ", CountItems(pass, items), ", but needs ", per_rank * pass.ranks(),
                   " micro-batches of one or more, ", per_rank, " on each rank of data_parallel ",
                   pass.ranks(), " (", Limits(pass), ")"));
}

absl::Status TooFewGroups(const Pass& pass, size_t groups, absl::string_view where) {
  if (pass.rank_multiple() > 1) {
    return absl::InvalidArgumentError(
        absl::StrCat(where, " has ", groups, " times ", pass.rank_multiple(),
                     " sequences (sequence_count_multiple), but data_parallel is ", pass.ranks(),
                     "; lower one of these, or set allow_empty_microbatches"));
  }
  return absl::InvalidArgumentError(
      absl::StrCat(where, " has ", Count(groups, true),
                   " that mini_batches.groups keeps on one rank each, but data_parallel is ",
                   pass.ranks(), "; lower it, or set allow_empty_microbatches"));
}

absl::Status TooFewItemsOnRank(const Pass& pass, size_t rank, size_t items, uint64_t slots,
                               absl::string_view where) {
  return absl::InvalidArgumentError(
      absl::StrCat(where, ": rank ", rank, " has ", CountItems(pass, items), ", but needs ", slots,
                   " micro-batches of one or more, as every rank of data_parallel ", pass.ranks(),
                   " (", Limits(pass), ")"));
}

absl::Status TooFewSlots(const Pass& pass, size_t fullest, uint64_t needed, size_t poorest,
                         size_t items, uint64_t slots, absl::string_view where) {
  return absl::InvalidArgumentError(absl::StrCat(where, ": rank ", fullest, " needs ", needed,
                                                 " micro-batches, but rank ", poorest, " has ",
                                                 CountItems(pass, items), ", so that ", slots,
                                                 " are the most that every rank of data_parallel ",
                                                 pass.ranks(), " can have (", Limits(pass), ")"));
}

absl::Status TooManyEmpty(const Pass& pass, uint64_t slots, absl::string_view where) {
  return absl::InvalidArgumentError(
      absl::StrCat(where, " needs ", slots, " micro-batches on each rank of data_parallel ",
                   pass.ranks(), " (", Limits(pass), "), more than ", pass.most_with_empty(),
                   " in all, the limit where allow_empty_microbatches is set"));
}

absl::Status UnitsDontDivide(const Pass& pass, size_t units, absl::string_view where) {
  return absl::InvalidArgumentError(
      absl::StrCat(where, " has ", CountUnits(pass, units), ", which data_parallel ", pass.ranks(),
                   " does not divide, but sharding is SHARDING_STRIDE_SORTED"));
}

absl::Status SequencesDontDivide(const Pass& pass, uint64_t sequences, absl::string_view where) {
  return absl::InvalidArgumentError(
      absl::StrCat(where, " has ", Count(sequences, false), ", which data_parallel ", pass.ranks(),
                   " does not divide, but ", AskedAs(pass.options().sequence_counts)));
}

absl::Status GroupsDontDivide(const Pass& pass, size_t groups, uint64_t sequences,
                              absl::string_view where) {
  const uint64_t each = sequences / pass.ranks();
  const std::string share = sequences % pass.ranks() == 0
                                ? absl::StrCat("exactly ", Count(each, false))
                                : absl::StrCat(each, " or ", Count(each + 1, false));
  return absl::InvalidArgumentError(absl::StrCat(
      where, " has ", CountUnits(pass, groups),
      " that stay on one rank, and no way was found to give each rank of data_parallel ",
      pass.ranks(), " ", share, ", but ", AskedAs(pass.options().sequence_counts)));
}

absl::Status NotWithinLimits(const Pass& pass, absl::string_view where) {
  return absl::InvalidArgumentError(absl::StrCat(
      where, ": no micro-batches were found on data_parallel ", pass.ranks(), " ranks within ",
      Limits(pass), "; raise limits, or set allow_empty_microbatches"));
}

absl::Status NothingOnRank(const Pass& pass, size_t rank, absl::string_view where) {
  return absl::InvalidArgumentError(absl::StrCat(
      where, ": manifest.ranks has no sequence on rank ", rank, " of data_parallel ", pass.ranks(),
      ", which needs a micro-batch of one or more; set allow_empty_microbatches"));
}

absl::Status UnequalCounts(const Pass& pass, RankCount fewest, RankCount most,
                           absl::string_view where) {
  return absl::InvalidArgumentError(
      absl::StrCat(where, ": manifest.ranks has ", Count(fewest.sequences, false), " on rank ",
                   fewest.rank, " and ", Count(most.sequences, false), " on rank ", most.rank,
                   ", but ", AskedAs(pass.options().sequence_counts)));
}

}  // namespace batchplan
