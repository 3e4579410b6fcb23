// Stage 1, align: the lengths that are planned. Sequences that are too long are cut, dropped, run
// alone or refused; planned lengths are rounded up to each pass's multiple.

#ifndef BATCHPLAN_SERVER_PLANNER_REQUEST_LENGTHS_H_
#define BATCHPLAN_SERVER_PLANNER_REQUEST_LENGTHS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/planner/request/loads.h"
#include "server/planner/request/manifest.h"
#include "server/planner/request/options.h"
#include "server/planner/request/sequence_groups.h"

namespace batchplan {

// The least common multiple of pass.length_multiple and the topology's multiple. Context
// parallelism cuts a sequence into 2*CP chunks, two for each rank, so that causal attention costs
// every rank the same; sequence parallelism cuts activations into TP parts. So the topology's
// multiple is 2*CP (1 if CP = 1), times TP with sequence parallelism.
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

// The longest sequence that every pass can hold beside others, and the pass that limits it.
struct LengthLimit {
  uint32_t length = 0;
  // Index into PlanOptions::passes.
  size_t pass = 0;
  // The ranks of the pass's largest group; 0: all groups have context_parallel.
  uint32_t ranks = 0;
  // The longest that may run alone (OverlongPolicy::kAlone): rounded up to each pass's multiple it
  // is a row's width, which has 32 bits.
  uint32_t alone = 0;
};

// As on the wire.
enum class ExclusionReason : uint32_t { kTruncated = 1, kDropped = 2, kExpired = 3, kAlone = 4 };

struct ExcludedSequence {
  uint32_t index = 0;
  uint32_t length = 0;  // the true length
  ExclusionReason reason = ExclusionReason::kTruncated;
};

struct PlannedLengths {
  // One a sequence of the manifest: its true length if it runs alone, 0 if it is dropped.
  std::vector<uint32_t> lengths;
  std::vector<ExcludedSequence> excluded;  // ascending by index
};

// Applies options.overlong to the sequences of the manifest that are not `ignored`; kDrop drops
// whole groups. A sequence whose load exceeds a limit by itself is overlong too. InvalidArgument,
// naming sequence, length or load, and limit: under kReject for any overlong sequence, under
// kTruncate for one whose load exceeds a limit, under kAlone for one whose row would be wider than
// 32 bits hold, and always for a sequence of length 0.
absl::StatusOr<PlannedLengths> ApplyOverlongPolicy(const Manifest& manifest,
                                                   const PlanOptions& options, const Groups& groups,
                                                   const Loads& loads, const LengthLimit& limit,
                                                   absl::FunctionRef<bool(SequenceIndex)> ignored);

// InvalidArgument, naming a sequence, if manifest.pad_to is set and below the sequence's length.
absl::Status CheckPadTo(const Manifest& manifest, const PlannedLengths& planned);

// Every planned length rounded up to one multiple, by manifest position; 0 for a dropped sequence.
using AlignedLengths = std::shared_ptr<const std::vector<uint32_t>>;

// The planned lengths rounded up to each multiple that is asked for, each computed once. Views
// them.
class Alignments {
 public:
  explicit Alignments(std::span<const uint32_t> planned_lengths) : lengths_(planned_lengths) {}

  const AlignedLengths& To(uint32_t length_multiple);

 private:
  std::span<const uint32_t> lengths_;
  std::map<uint32_t, AlignedLengths> aligned_;
};

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_REQUEST_LENGTHS_H_
