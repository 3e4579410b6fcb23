// How the reference presets assign sequences: more candidates for a balanced plan.

#ifndef BATCHPLAN_SERVER_PLANNER_RANKS_REFERENCE_METHODS_H_
#define BATCHPLAN_SERVER_PLANNER_RANKS_REFERENCE_METHODS_H_

#include <cstddef>
#include <vector>

#include "absl/strings/string_view.h"
#include "server/planner/request/allowance.h"
#include "server/planner/request/options.h"

namespace batchplan {

// Whether the reference presets' assignments are among the candidates for a balanced plan of this
// many sequences. For large mini-batches only at kThorough, since they are slower than the solver
// there.
bool TriesReferences(Effort effort, size_t sequences);

// How the reference presets assign, under the limits of `pass`; each way once.
std::vector<PassOptions> ReferenceMethods(const PassOptions& pass, const Topology& topology);

// The name of the pass's way to assign (MiniBatchDecision.method): its preset, if that assigns in
// the same way; else the first preset that does; else its sharding.
absl::string_view MethodOf(const PassOptions& pass);
// The name of its way to divide the sequences of one rank into micro-batches: its packer or its
// scan.
absl::string_view FillingMethodOf(const PassOptions& pass);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_RANKS_REFERENCE_METHODS_H_
