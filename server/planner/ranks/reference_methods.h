// The ways in which other planners assign, which a balanced plan is chosen from too.

#ifndef BATCHPLAN_SERVER_PLANNER_RANKS_REFERENCE_METHODS_H_
#define BATCHPLAN_SERVER_PLANNER_RANKS_REFERENCE_METHODS_H_

#include <cstddef>
#include <vector>

#include "absl/strings/string_view.h"
#include "server/planner/request/allowance.h"
#include "server/planner/request/options.h"

namespace batchplan {

// Whether the ways of the reference presets are among those that a balanced plan of so many
// sequences is chosen from: of large mini-batches only where the effort is thorough, since they
// take longer than the solver there.
bool TriesReferences(Effort effort, size_t sequences);

// The ways in which the reference presets assign, under the limits of `pass`; each once.
std::vector<PassOptions> ReferenceMethods(const PassOptions& pass, const Topology& topology);

// What a plan calls the pass's way to assign (MiniBatchDecision.method): the preset that it was
// made from, as long as it still assigns so; else the first preset that does; else its sharding.
absl::string_view MethodOf(const PassOptions& pass);
// And its way to divide the sequences of one rank into micro-batches: by its packer or its scan.
absl::string_view FillingMethodOf(const PassOptions& pass);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_RANKS_REFERENCE_METHODS_H_
