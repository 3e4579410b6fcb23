// Lists of sequences whose sizes are multiples of a number, so that micro-batches of whole lists
// have such a multiple too.

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

// Joins whole parts into lists until each list has a multiple of `multiple` sequences, from as few
// parts as possible: a part that has such a multiple is a list by itself. Lists stand in the order
// of their first members. If the number of all sequences is no multiple, the last list has the
// rest.
//
// In the packed layout single sequences are divided so that lists need similar room: the longest
// first, each to the list that needs least. Other parts go, the longest first, with the smallest
// that complete the multiple. In the padded layout the parts of a list are neighbours in the order
// by length.
SequenceLists Bundled(const Pass& pass, SequenceLists parts, uint32_t multiple);

// InvalidArgument, beginning with `where`, if the number of sequences is not divided by the
// multiple that the pass asks of a micro-batch, or by the one that all passes together ask of a
// rank; or if an item exceeds a limit.
absl::Status CheckBundles(const Pass& pass, const Items& items, absl::string_view where);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_PASS_BUNDLES_H_
