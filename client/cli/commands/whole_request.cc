#include "client/cli/commands/whole_request.h"

#include <algorithm>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace batchplan::cli {
namespace {

using Numbers = google::protobuf::RepeatedField<uint32_t>;

absl::Status SetLength(uint32_t index, uint32_t length, Numbers* lengths) {
  if (index >= static_cast<uint32_t>(lengths->size())) {
    return absl::InvalidArgumentError(
        absl::StrCat("the plan has sequence ", index, ", but the workers sent ", lengths->size()));
  }
  lengths->Set(static_cast<int>(index), length);
  return absl::OkStatus();
}

// The rank of each sequence of the first pass, as far as its arrays go together.
void SetPlannedRanks(uint32_t count, const v1::PlanBatchResponse& plan, Numbers* ranks) {
  if (plan.passes().empty()) return;
  const v1::PassPlan& pass = plan.passes(0);
  int microbatch = 0;
  for (const uint32_t slots : pass.microbatches_per_rank()) {
    for (uint64_t place = 0; place < uint64_t{count} * slots; ++place, ++microbatch) {
      if (microbatch + 1 >= pass.microbatch_offsets_size()) return;
      const uint32_t end = std::min(pass.microbatch_offsets(microbatch + 1),
                                    static_cast<uint32_t>(pass.sequence_index_size()));
      for (uint32_t i = pass.microbatch_offsets(microbatch); i < end; ++i) {
        const uint32_t sequence = pass.sequence_index(static_cast<int>(i));
        if (sequence >= static_cast<uint32_t>(ranks->size())) continue;
        ranks->Set(static_cast<int>(sequence), static_cast<uint32_t>(place / slots));
      }
    }
  }
}

absl::Status SetOwnRanks(const v1::JoinBatchRequest& own, const Numbers& worker_offsets,
                         Numbers* ranks) {
  const Numbers& given = own.request().manifest().ranks();
  const auto worker = static_cast<int>(own.worker());
  const uint64_t begin = worker < worker_offsets.size() ? worker_offsets[worker] : 0;
  if (worker + 1 >= worker_offsets.size() || worker_offsets[worker + 1] != begin + given.size() ||
      begin + given.size() > static_cast<uint64_t>(ranks->size())) {
    return absl::InvalidArgumentError(absl::StrCat("the answer's worker_offsets are not those of ",
                                                   "worker ", worker, ", which sent ", given.size(),
                                                   " sequences"));
  }
  std::copy(given.begin(), given.end(), ranks->begin() + static_cast<int>(begin));
  return absl::OkStatus();
}

// That the lengths that are 0 are of sequences that wait.
absl::Status CheckNoneIsMissing(const v1::PlanBatchResponse& plan, const Numbers& lengths) {
  auto deferred = plan.deferred().begin();
  for (int i = 0; i < lengths.size(); ++i) {
    if (deferred != plan.deferred().end() && *deferred == static_cast<uint32_t>(i)) {
      ++deferred;
    } else if (lengths[i] == 0) {
      return absl::InvalidArgumentError(absl::StrCat("the plan leaves out sequence ", i, " of ",
                                                     lengths.size(), ", which the workers sent"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<v1::PlanBatchRequest> WholeRequest(const v1::JoinBatchRequest& own,
                                                  const v1::JoinBatchResponse& answer) {
  v1::PlanBatchRequest whole = own.request();
  whole.mutable_manifest()->clear_group_ids();
  whole.mutable_manifest()->clear_ages();
  whole.mutable_manifest()->clear_shared_prefixes();
  whole.mutable_manifest()->clear_shared_with();
  whole.mutable_manifest()->clear_kinds();
  whole.mutable_manifest()->clear_loads();
  whole.mutable_manifest()->clear_items();
  if (whole.cost_model().loads_size() > 0) whole.clear_cost_model();
  for (v1::Pass& pass : *whole.mutable_passes()) pass.clear_limits();
  whole.mutable_mini_batches()->clear_groups();
  Numbers* lengths = whole.mutable_manifest()->mutable_lengths();
  lengths->Clear();
  if (answer.worker_offsets_size() == 0) {
    return absl::InvalidArgumentError("the answer has no worker_offsets");
  }
  // Each sequence stands in the plan, so that the answer's own size bounds their number.
  const uint64_t sequences = *answer.worker_offsets().rbegin();
  uint64_t most = static_cast<uint64_t>(answer.plan().excluded_size()) +
                  static_cast<uint64_t>(answer.plan().deferred_size());
  for (const v1::PassPlan& pass : answer.plan().passes()) {
    most += static_cast<uint64_t>(pass.sequence_index_size());
  }
  if (sequences > most) {
    return absl::InvalidArgumentError(absl::StrCat("the workers sent ", sequences,
                                                   " sequences, but the plan has at most ", most));
  }
  lengths->Resize(static_cast<int>(sequences), 0);

  absl::Status status;
  for (const v1::PassPlan& pass : answer.plan().passes()) {
    const int planned = std::min(pass.sequence_index_size(), pass.sequence_lengths_size());
    for (int i = 0; i < planned; ++i) {
      status.Update(SetLength(pass.sequence_index(i), pass.sequence_lengths(i), lengths));
    }
  }
  // After the planned lengths: a truncated sequence was longer.
  for (const v1::ExcludedSequence& sequence : answer.plan().excluded()) {
    status.Update(SetLength(sequence.index(), sequence.length(), lengths));
  }
  if (!status.ok()) return status;
  status = CheckNoneIsMissing(answer.plan(), *lengths);
  if (!status.ok()) return status;
  if (own.request().manifest().ranks().empty()) return whole;
  Numbers* ranks = whole.mutable_manifest()->mutable_ranks();
  ranks->Clear();
  ranks->Resize(static_cast<int>(sequences), 0);
  SetPlannedRanks(std::max(1U, whole.topology().data_parallel()), answer.plan(), ranks);
  status = SetOwnRanks(own, answer.worker_offsets(), ranks);
  if (!status.ok()) return status;
  return whole;
}

}  // namespace batchplan::cli
