// What one pass asks of the planner: the request, boiled down to lengths, costs and limits.
//
// The planner's words:
//   length: the tokens of a sequence, as in the manifest or cut to the longest that is allowed.
//   aligned length: a length rounded up to the pass's multiple. Limits and costs are of these.
//   unit: what goes to one rank whole: a sequence, or a group that stays on one rank.
//   item: what goes to one micro-batch whole: a sequence, or a group that stays in one micro-batch.
//   alone: a sequence above the pass's token budget that the caller wants as it is. It takes all
//     the room of its micro-batch, and makes that as wide as itself.
//   load: what ranks and micro-batches are evened out by: cost, or tokens where that is asked for.
//   share: the sequences of one rank.
//   given rank: where the manifest says that a sequence is; then shares are not for the planner.
//   bin: items that fit into one micro-batch, before its rank and slot are known.
//   micro-batch: what a rank runs at once: a packed row, or sequences padded to one width.
//   slot: the number of a micro-batch on its rank. In lockstep those of one slot run together.
//   placement: a mini-batch's micro-batches in one pass, by rank and slot (placement.h).
//   width: the tokens of a packed row, or those that each sequence of a padded one is padded to.
// Units are sharded: given to ranks. A rank's share is filled into micro-batches. Bins are dealt:
// given to ranks and slots. Items are spread: the costliest first, to the cheapest bin with room.

#ifndef BATCHPLAN_SERVER_PLANNER_PASS_INSTANCE_H_
#define BATCHPLAN_SERVER_PLANNER_PASS_INSTANCE_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/planner/cost.h"
#include "server/planner/lengths.h"
#include "server/planner/manifest.h"
#include "server/planner/mini_batches.h"
#include "server/planner/options.h"
#include "server/planner/packing/bins.h"
#include "server/planner/padded/splits.h"
#include "server/planner/pipeline/schedule.h"
#include "server/planner/step_clock.h"

namespace batchplan {

// The micro-batches of all passes are at most this many beyond one a sequence and pass; only empty
// ones come near it.
inline constexpr uint64_t kMaxEmptyMicrobatches = uint64_t{1} << 18;

// The constraint on the micro-batches of one rank in one mini-batch.
struct CountRule {
  uint64_t minimum = 1;
  uint64_t multiple = 1;

  // The least allowed count that is at least `needed`.
  uint64_t RoundUp(uint64_t needed) const;
  // The least number that RoundUp brings to the allowed `count` or beyond.
  uint64_t LeastThatNeeds(uint64_t count) const;
  // The greatest allowed count that is at most `available`; 0: there is none.
  uint64_t RoundDown(uint64_t available) const;
};

// The pass's minimum, and lcm(microbatch_count_multiple, the pipeline's group size if VPP > 1).
CountRule CountRuleOf(const Topology& topology, const PipelineOptions& pipeline,
                      const PassOptions& pass);

// What the micro-batches of a rank wait at most, so many sequences in so many mini-batches, one
// after the other at all stages of a pipeline and back; 0 without one. In units of the cost model.
double MostWaiting(const PlanOptions& options, const PassOptions& pass, uint64_t sequences,
                   uint64_t mini_batches);

// InvalidArgument, beginning with `where`, if a pipeline has more micro-batches to simulate, a
// sequence in each and `empty` ones, than kMaxPipelineWorks allow.
absl::Status CheckPipelineWorks(const Topology& topology, uint64_t sequences, uint64_t empty,
                                absl::string_view where);

// InvalidArgument if so many micro-batches, of all passes together, are more than kMaxPipelineWorks
// allow to simulate on the pipeline.
absl::Status CheckTotalPipelineWorks(const Topology& topology, uint64_t microbatches,
                                     size_t passes);

// What goes to one micro-batch whole, a sequence or a group that stays together there. Arrays of
// one size.
struct Items {
  SequenceLists sequences = {};
  // The room that an item takes, in aligned tokens: in the packed layout the sum of its sequences,
  // in the padded layout the longest of them; of one that runs alone, all that there is.
  std::vector<uint32_t> lengths;
  // Where some run alone, the aligned tokens of each; else empty.
  std::vector<uint32_t> whole_lengths = {};
  // Sequences in an item; empty: one each.
  std::vector<uint32_t> counts;
  std::vector<Cost> costs;

  uint32_t size() const { return static_cast<uint32_t>(lengths.size()); }
  // What the items add to the width of their micro-batch.
  std::span<const uint32_t> widths() const {
    return whole_lengths.empty() ? lengths : whole_lengths;
  }
  PackItems ForPacking() const { return {.lengths = lengths, .counts = counts, .loads = costs}; }
};

// What goes to one rank whole, a sequence or a group that stays together there. Arrays of one size.
struct Units {
  SequenceLists sequences;
  std::vector<uint32_t> counts;  // sequences in a unit
  std::vector<uint64_t> loads;   // what ranks are balanced by: aligned tokens or cost

  uint32_t size() const { return static_cast<uint32_t>(loads.size()); }
  // Sequences of all units.
  uint64_t total() const { return sequences.all().size(); }
};

// What the balanced solver evens out: a packed micro-batch's load is the sum over its items and a
// part that all micro-batches have alike.
struct Objective {
  std::vector<uint64_t> loads;  // of each item
  uint64_t per_microbatch = 0;
  // Whether loads are costs as they stand.
  bool is_cost = false;
};

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
  // The same with another effort.
  PassInstance With(Effort effort) const;

  const PassOptions& options() const { return *options_; }
  // How errors name the pass.
  const std::string& where() const { return where_; }
  uint32_t length_multiple() const { return length_multiple_; }
  uint32_t ranks() const { return ranks_; }
  // At least 1.
  size_t mini_batches() const { return mini_batches_; }
  bool allow_empty() const { return allow_empty_; }
  // The most micro-batches of a mini-batch of which some are empty, on all ranks.
  uint64_t most_with_empty() const {
    return pipeline_ == nullptr
               ? kMaxEmptyMicrobatches
               : std::min(kMaxEmptyMicrobatches, kMaxPipelineWorks / pipeline_->virtual_stages());
  }
  Synchronization synchronization() const { return synchronization_; }
  Effort effort() const { return effort_; }
  // Whether ranks run the same positions of their sorted orders at the same widths.
  bool same_widths() const { return same_widths_; }
  const CountRule& counts() const { return counts_; }
  // The order that is asked for; kPipeline with a pipeline alone.
  MicrobatchOrder order() const {
    return options_->order == MicrobatchOrder::kPipeline && pipeline_ == nullptr
               ? MicrobatchOrder::kAsAssigned
               : options_->order;
  }
  // What each rank runs its micro-batches on, in scaled units of cost; null without a pipeline.
  const Pipeline* pipeline() const { return pipeline_.get(); }
  StepClock clock() const { return StepClock(synchronization_, pipeline()); }
  const CostFunction& cost() const { return cost_; }
  // Of a packed row.
  const BinLimits& bin_limits() const { return bin_limits_; }
  // Of a padded micro-batch.
  const PaddedLimits& padded_limits() const { return padded_limits_; }
  // By manifest position; 0 for a dropped sequence.
  std::span<const uint32_t> aligned() const { return *aligned_; }
  // The aligned tokens that a sequence takes of the room of its micro-batch: all that there is
  // where it runs alone.
  uint32_t RoomOf(SequenceIndex sequence) const {
    return std::min((*aligned_)[sequence.value()], longest_beside_);
  }

  // By manifest position, the ranks that the manifest gives; empty: the planner decides.
  std::span<const uint32_t> given_ranks() const { return given_ranks_; }
  // Whether groups go to one rank, and to one micro-batch, as a whole.
  bool groups_keep_rank() const { return groups_keep_rank_; }
  bool groups_keep_microbatch() const { return groups_keep_microbatch_; }
  // Whether packed bins may go to ranks whole, whatever is in them.
  bool may_deal_bins() const;

  // `sequences` as items and as units, in the order of their first members.
  Items ItemsOf(std::span<const SequenceIndex> sequences) const;
  Units UnitsOf(std::span<const SequenceIndex> sequences) const;
  // The lists of sequences that make units.
  SequenceLists UnitLists(std::span<const SequenceIndex> sequences) const;
  // Each list as one item, whatever the groups. The costs are true of any list, the lengths of one
  // that is together in a micro-batch.
  Items ItemsFrom(SequenceLists lists) const;
  // Cost, or tokens where the pass is balanced on these and there is no pipeline. Where rows are as
  // wide as the longest or the budget, what tokens cost by themselves is the same for every row,
  // and only attention, exchange and the fixed costs of sequences are left to even out; rows padded
  // to buckets are taken for unpadded ones.
  Objective ObjectiveOf(const Items& items) const;

  // The widths of one mini-batch's micro-batches once rows are padded as the pass asks: packed rows
  // of at most bin_limits().capacity tokens are widened; wider ones, which hold a sequence alone,
  // empty ones and padded micro-batches stay.
  std::vector<uint32_t> RowWidths(std::vector<uint32_t> widths) const;
  // What a micro-batch costs whose row, or padded width, is `width` tokens; 0 for an empty one but
  // for the fixed cost.
  Cost CostOf(std::span<const SequenceIndex> microbatch, uint32_t width) const;
  // True tokens, of all sequences of each list.
  std::vector<uint64_t> TrueTokensOf(const SequenceLists& lists) const;

 private:
  PassInstance(const Manifest& manifest, const PlanOptions& options, size_t index,
               uint32_t length_multiple, const PlannedLengths& planned, const Groups& groups,
               const CostFunction& cost, AlignedLengths aligned);

  absl::Status CheckGroupsFit(const Manifest& manifest) const;

  const PassOptions* options_;
  std::string where_;
  uint32_t length_multiple_;
  uint32_t ranks_;
  size_t mini_batches_ = 1;
  bool allow_empty_;
  Synchronization synchronization_;
  Effort effort_;
  bool same_widths_;
  bool groups_keep_microbatch_;
  bool groups_keep_rank_;
  const Groups* groups_;
  std::span<const uint32_t> given_ranks_;
  CountRule counts_;
  CostFunction cost_;
  std::shared_ptr<const Pipeline> pipeline_;
  BinLimits bin_limits_;
  PaddedLimits padded_limits_;
  // Aligned sequences that are longer run alone.
  uint32_t longest_beside_;
  bool some_run_alone_;
  std::span<const uint32_t> planned_;
  AlignedLengths aligned_;
};

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_PASS_INSTANCE_H_
