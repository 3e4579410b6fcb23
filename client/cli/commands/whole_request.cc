#include "client/cli/commands/whole_request.h"

#include <algorithm>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace batchplan::cli {
namespace {

using Lengths = google::protobuf::RepeatedField<uint32_t>;

absl::Status SetLength(uint32_t index, uint32_t length, Lengths* lengths) {
  if (index >= static_cast<uint32_t>(lengths->size())) {
    return absl::InvalidArgumentError(
        absl::StrCat("the plan has sequence ", index, ", but the workers sent ", lengths->size()));
  }
  lengths->Set(static_cast<int>(index), length);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<v1::PlanBatchRequest> WholeRequest(const v1::PlanBatchRequest& own,
                                                  const v1::JoinBatchResponse& answer) {
  v1::PlanBatchRequest whole = own;
  whole.mutable_manifest()->clear_group_ids();
  whole.mutable_mini_batches()->clear_groups();
  Lengths* lengths = whole.mutable_manifest()->mutable_lengths();
  lengths->Clear();
  if (answer.worker_offsets_size() == 0) {
    return absl::InvalidArgumentError("the answer has no worker_offsets");
  }
  // Each sequence stands in the plan, so that the answer's own size bounds their number.
  const uint64_t sequences = *answer.worker_offsets().rbegin();
  uint64_t most = static_cast<uint64_t>(answer.plan().excluded_size());
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
  const auto left_out = std::find(lengths->begin(), lengths->end(), 0U);
  if (left_out != lengths->end()) {
    return absl::InvalidArgumentError(absl::StrCat("the plan leaves out sequence ",
                                                   left_out - lengths->begin(), " of ",
                                                   lengths->size(), ", which the workers sent"));
  }
  return whole;
}

}  // namespace batchplan::cli
