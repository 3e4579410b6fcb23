// What one pass asks of the planner: the request, boiled down to lengths, costs and limits.
//
// The planner's words:
//   length: the tokens of a sequence, as in the manifest or cut to the longest that is allowed.
//   aligned length: a length rounded up to the pass's multiple. Limits and costs are of these.
//   unit: what goes to one rank whole: a sequence, or a group that stays on one rank.
//   item: what goes to one micro-batch whole: a sequence, or a group that stays in one micro-batch.
//   load: what ranks and micro-batches are evened out by: cost, or tokens where that is asked for.
//   share: the sequences of one rank.
//   bin: items that fit into one micro-batch, before its rank and slot are known.
//   micro-batch: what a rank runs at once: a packed row, or sequences padded to one width.
//   slot: the number of a micro-batch on its rank. In lockstep those of one slot run together.
//   placement: a mini-batch's micro-batches in one pass, by rank and slot (placement.h).
//   width: the tokens of a packed row, or those that each sequence of a padded one is padded to.
// Units are sharded: given to ranks. A rank's share is filled into micro-batches. Bins are dealt:
// given to ranks and slots. Items are spread: the costliest first, to the cheapest bin with room.

#ifndef BATCHPLAN_SERVER_PLANNER_PASS_INSTANCE_H_
#define BATCHPLAN_SERVER_PLANNER_PASS_INSTANCE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/planner/cost.h"
#include "server/planner/count_rule.h"
#include "server/planner/groups.h"
#include "server/planner/items.h"
#include "server/planner/manifest.h"
#include "server/planner/options.h"
#include "server/planner/overlong.h"
#include "server/planner/packing/bins.h"
#include "server/planner/padded/splits.h"
#include "server/planner/sequence_lists.h"

namespace batchplan {

// The micro-batches of all passes are at most this many beyond one a sequence and pass; only empty
// ones come near it.
inline constexpr uint64_t kMaxEmptyMicrobatches = uint64_t{1} << 18;

using AlignedLengths = std::shared_ptr<const std::vector<uint32_t>>;

// By manifest position; 0 for a dropped sequence.
AlignedLengths AlignAll(std::span<const uint32_t> planned_lengths, uint32_t length_multiple);

// Views what it is created from, which must outlive it.
class PassInstance {
 public:
  // Of options.passes[index], whose length multiple is given with the lengths that it makes, in
  // `mini_batches` mini-batches.
  // InvalidArgument, naming field and limit, if a row bucket or a group that stays in one
  // micro-batch can't be right, if the micro-batches would be too many, or if the cost overflows.
  static absl::StatusOr<PassInstance> Create(const Manifest& manifest, const PlanOptions& options,
                                             size_t index, uint32_t length_multiple,
                                             const AlignedLengths& aligned,
                                             const PlannedLengths& planned, const Groups& groups,
                                             size_t mini_batches);

  // The same sequences and limits under other options of how to assign: `method` differs from
  // options() in sharding, packer, scan, what ranks are balanced on and equal counts alone, and
  // must outlive the result.
  PassInstance With(const PassOptions& method) const;

  const PassOptions& options() const { return *options_; }
  // How errors name the pass.
  const std::string& where() const { return where_; }
  uint32_t length_multiple() const { return length_multiple_; }
  uint32_t ranks() const { return ranks_; }
  bool allow_empty() const { return allow_empty_; }
  Synchronization synchronization() const { return synchronization_; }
  Effort effort() const { return effort_; }
  // Whether ranks run the same positions of their sorted orders at the same widths.
  bool same_widths() const { return same_widths_; }
  const CountRule& counts() const { return counts_; }
  const CostFunction& cost() const { return cost_; }
  // Of a packed row.
  const BinLimits& bin_limits() const { return bin_limits_; }
  // Of a padded micro-batch.
  const PaddedLimits& padded_limits() const { return padded_limits_; }
  // By manifest position; 0 for a dropped sequence.
  std::span<const uint32_t> aligned() const { return *aligned_; }

  // Whether groups go to one rank, and to one micro-batch, as a whole.
  bool groups_keep_rank() const { return groups_keep_rank_; }
  bool groups_keep_microbatch() const { return groups_keep_microbatch_; }

  // `sequences` as items and as units, in the order of their first members.
  Items ItemsOf(std::span<const SequenceIndex> sequences) const;
  Units UnitsOf(std::span<const SequenceIndex> sequences) const;
  // The lists of sequences that make units.
  SequenceLists UnitLists(std::span<const SequenceIndex> sequences) const;
  // Each list as one item, whatever the groups. The costs are true of any list, the lengths of one
  // that is together in a micro-batch.
  Items ItemsFrom(SequenceLists lists) const;
  // What a micro-batch costs whose row, or padded width, is `width` tokens; 0 for an empty one but
  // for the fixed cost.
  Cost CostOf(std::span<const SequenceIndex> microbatch, uint32_t width) const;
  // True tokens, of all sequences of each list.
  std::vector<uint64_t> TrueTokensOf(const SequenceLists& lists) const;

 private:
  PassInstance(const PlanOptions& options, size_t index, uint32_t length_multiple,
               const PlannedLengths& planned, const Groups& groups, const CostFunction& cost,
               AlignedLengths aligned);

  absl::Status CheckGroupsFit(const Manifest& manifest) const;

  const PassOptions* options_;
  std::string where_;
  uint32_t length_multiple_;
  uint32_t ranks_;
  bool allow_empty_;
  Synchronization synchronization_;
  Effort effort_;
  bool same_widths_;
  bool groups_keep_microbatch_;
  bool groups_keep_rank_;
  const Groups* groups_;
  CountRule counts_;
  CostFunction cost_;
  BinLimits bin_limits_;
  PaddedLimits padded_limits_;
  std::span<const uint32_t> planned_;
  AlignedLengths aligned_;
};

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_PASS_INSTANCE_H_
