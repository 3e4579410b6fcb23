// What becomes of sequences longer than any micro-batch may be.

#ifndef BATCHPLAN_SERVER_PLANNER_OVERLONG_H_
#define BATCHPLAN_SERVER_PLANNER_OVERLONG_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "server/planner/groups.h"
#include "server/planner/manifest.h"
#include "server/planner/options.h"
#include "server/planner/plan.h"

namespace batchplan {

// The longest sequence that every pass can hold, and whose limit that is.
struct LengthLimit {
  uint32_t length = 0;
  // Index into PlanOptions::passes.
  size_t pass = 0;
};

// The smallest, over the passes, of the token budget rounded down to that pass's multiple.
LengthLimit FindLengthLimit(const PlanOptions& options, const std::vector<uint32_t>& multiples);

struct PlannedLengths {
  // One a sequence of the manifest; 0 for a dropped one.
  std::vector<uint32_t> lengths;
  std::vector<ExcludedSequence> excluded;  // ascending by index
};

// Applies options.overlong to the manifest; kDrop drops whole groups. InvalidArgument, naming
// sequence, length and limit, for an overlong sequence under kReject and for a sequence of length
// 0.
absl::StatusOr<PlannedLengths> ApplyOverlongPolicy(const Manifest& manifest,
                                                   const PlanOptions& options, const Groups& groups,
                                                   const LengthLimit& limit);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_OVERLONG_H_
