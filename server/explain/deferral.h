// What a selection leaves waiting, and why.

#ifndef BATCHPLAN_SERVER_EXPLAIN_DEFERRAL_H_
#define BATCHPLAN_SERVER_EXPLAIN_DEFERRAL_H_

#include <cstdint>
#include <string>
#include <vector>

#include "server/planner/plan.h"
#include "server/planner/request/manifest.h"
#include "server/planner/request/options.h"

namespace batchplan {

// Of sequences.
struct Deferral {
  uint64_t taken = 0;
  // Of these, what would be too old at the next step.
  uint64_t taken_for_age = 0;
  uint64_t deferred = 0;
  // Of these, what stands behind all that is taken beside that: its turn has not come. What else
  // waits was passed, for a step that keeps its ranks busier.
  uint64_t behind = 0;
  uint64_t passed = 0;
  // Sequences left out, as they are too old.
  uint64_t expired = 0;
  // Empty without a selection.
  std::vector<std::string> sentences;
};

// `manifest` needs its ages alone.
Deferral DeferralOf(const Manifest& manifest, const PlanOptions& options, const Plan& plan);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_EXPLAIN_DEFERRAL_H_
