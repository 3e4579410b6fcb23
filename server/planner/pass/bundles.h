// Sequences in lists of which each has a multiple of so many, so that micro-batches made of whole
// lists have it too.

#ifndef BATCHPLAN_SERVER_PLANNER_PASS_BUNDLES_H_
#define BATCHPLAN_SERVER_PLANNER_PASS_BUNDLES_H_

#include <cstdint>
#include <span>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "server/planner/pass/items.h"
#include "server/planner/pass/pass.h"
#include "server/planner/request/manifest.h"

namespace batchplan {

// Puts `parts` together whole until each list has a multiple of `multiple` sequences: the fewest
// parts that do, a part that has it by itself alone. In the order of their first members; what is
// left at the end, if all sequences together are no multiple, is in the last list.
//
// In the packed layout lists are alike in the room that they need, the longest part going to the
// list that needs least (longest processing time first with a number of parts each); in the padded
// layout they are neighbours in the order by length.
SequenceLists Bundled(const Pass& pass, SequenceLists parts, uint32_t multiple);

// InvalidArgument, beginning with `where`, if these sequences are no multiple of what the pass asks
// of a micro-batch or, for other passes' sake, of a rank; or if an item of them is beyond a limit.
absl::Status CheckBundles(const Pass& pass, const Items& items, absl::string_view where);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_PASS_BUNDLES_H_
