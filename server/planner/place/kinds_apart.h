// Slots of one kind of sequences: the sequences of each kind, or of kind 0 and of all others, are
// placed by themselves, and their slots stand one behind the other.

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
  // 0 of sequences of kind 0, which alone may stand beside empty micro-batches.
  uint32_t kind = 0;
  std::vector<SequenceIndex> sequences;
};

// The classes of a pass with kinds_per_slot, those of kind 0 last: of each kind one, or for
// kTogether one of all kinds other than 0. Each in the order given.
std::vector<KindClass> ClassesOf(const Pass& pass, std::span<const SequenceIndex> sequences);

// As if sequences of which a phase takes something were of kind 1, and others of kind 0.
std::vector<KindClass> ClassesByPhases(const Pass& pass, std::span<const SequenceIndex> sequences);

// Whether no slot has what kinds_per_slot keeps apart. True of other passes.
bool KeepsKinds(const Pass& pass, const SequenceLists& microbatches, size_t slots);

// InvalidArgument, beginning with `where` and naming the counts, if a class has fewer sequences
// than a slot has ranks, each of which needs one.
absl::Status CheckClasses(const Pass& pass, std::span<const KindClass> classes,
                          absl::string_view where);

// A rank has no sequence of a class, or the slots of all classes are too few or no multiple.
absl::Status NoKindOnRank(const Pass& pass, size_t rank, const KindClass& missing,
                          absl::string_view where);
absl::Status WrongSlotsOfKinds(const Pass& pass, uint64_t slots, absl::string_view where);

// The slots of placements of the same ranks, one placement's behind the other's. Accumulated and
// without `keeps_ranks`, a placement's ranks change places so that those with much have little of
// what comes next.
Placement Joined(const Pass& pass, std::span<const Placement> placements, bool keeps_ranks);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_PLACE_KINDS_APART_H_
