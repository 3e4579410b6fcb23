#include "server/checker/check_sequences.h"

#include <cstddef>
#include <cstdint>

#include "server/checker/violation.h"

namespace batchplan::checker {

absl::StatusOr<Placement> CheckSequences(const PassUnderCheck& pass,
                                         const std::vector<Microbatch>& microbatches) {
  const std::vector<uint32_t>& planned_lengths = pass.expected.planned_lengths;
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

}  // namespace batchplan::checker
