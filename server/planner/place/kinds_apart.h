// Slots of one class of kinds each: the sequences of each class are placed by themselves, and the
// slots of one class follow those of another.

#ifndef BATCHPLAN_SERVER_PLANNER_PLACE_KINDS_APART_H_
#define BATCHPLAN_SERVER_PLANNER_PLACE_KINDS_APART_H_

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "server/planner/pass/pass.h"
#include "server/planner/pass/placement.h"
#include "server/planner/request/manifest.h"

namespace batchplan {

// Sequences whose micro-batches may run at the same time.
struct KindClass {
  // 0 for sequences of kind 0, the only ones that may share a slot with empty micro-batches.
  uint32_t kind = 0;
  std::vector<SequenceIndex> sequences;
};

// The classes of a pass with kinds_per_slot: one for each kind, or for kTogether one for all kinds
// other than 0; kind 0 comes last. Sequences keep their order.
std::vector<KindClass> ClassesOf(const Pass& pass, std::span<const SequenceIndex> sequences);

// ClassesOf as if sequences with a load that has a phase were of kind 1, and the others of kind 0.
std::vector<KindClass> ClassesByPhases(const Pass& pass, std::span<const SequenceIndex> sequences);

// Whether no slot mixes what kinds_per_slot keeps apart. True for passes without it.
bool KeepsKinds(const Pass& pass, const SequenceLists& microbatches, size_t slots);

// InvalidArgument, beginning with `where` and naming the counts, if a class has fewer sequences
// than a slot has ranks: each rank needs one.
absl::Status CheckClasses(const Pass& pass, std::span<const KindClass> classes,
                          absl::string_view where);

// The errors if a rank has no sequence of a class, and if the slots of all classes together are too
// few or no multiple.
absl::Status NoKindOnRank(const Pass& pass, size_t rank, const KindClass& missing,
                          absl::string_view where);
absl::Status WrongSlotsOfKinds(const Pass& pass, uint64_t slots, absl::string_view where);

// Placements on the same ranks joined into one, the slots of one after those of another.
// Accumulated and without `keeps_ranks`, the ranks of a placement are renumbered so that ranks with
// much work so far get little.
Placement Joined(const Pass& pass, std::span<const Placement> placements, bool keeps_ranks);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_PLACE_KINDS_APART_H_
