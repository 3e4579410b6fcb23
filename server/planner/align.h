// Stage 1, align: the multiple that every sequence's length is rounded up to.

#ifndef BATCHPLAN_SERVER_PLANNER_ALIGN_H_
#define BATCHPLAN_SERVER_PLANNER_ALIGN_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/planner/options.h"

namespace batchplan {

// The least common multiple of pass.length_multiple and what the topology demands. Context
// parallelism cuts a sequence into 2*CP chunks, two to a rank, so that causal attention costs every
// rank the same; sequence parallelism cuts activations TP ways. So 2*CP*TP for CP > 1 with sequence
// parallelism, 2*CP without it, TP or 1 at CP = 1.
//
// InvalidArgument, naming the field with `where`, if the multiple is above the pass's token budget:
// no sequence would fit.
absl::StatusOr<uint32_t> LengthMultiple(const Topology& topology, const PassOptions& pass,
                                        absl::string_view where);

// `length` rounded up to a multiple.
constexpr uint64_t AlignUp(uint64_t length, uint32_t multiple) {
  return (length + multiple - 1) / multiple * multiple;
}

// `length` rounded down to a multiple.
constexpr uint32_t AlignDown(uint32_t length, uint32_t multiple) {
  return length / multiple * multiple;
}

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_ALIGN_H_
