// What one pass asks of the solvers: the request, boiled down to lengths, costs and limits. Ranks
// that share a micro-batch are a group. All groups have topology.context_parallel ranks, or, with
// topology.dynamic_context, groups have several sizes.

#ifndef BATCHPLAN_SERVER_PLANNER_PASS_PASS_H_
#define BATCHPLAN_SERVER_PLANNER_PASS_PASS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/planner/packing/bins.h"
#include "server/planner/padded/splits.h"
#include "server/planner/pass/count_rule.h"
#include "server/planner/pass/items.h"
#include "server/planner/pass/pass_loads.h"
#include "server/planner/request/allowance.h"
#include "server/planner/request/context_sizes.h"
#include "server/planner/request/cost.h"
#include "server/planner/request/lengths.h"
#include "server/planner/request/loads.h"
#include "server/planner/request/manifest.h"
#include "server/planner/request/options.h"
#include "server/planner/request/sequence_groups.h"
#include "server/planner/request/shared_prefixes.h"
#include "server/planner/time/schedule.h"
#include "server/planner/time/step_clock.h"

namespace batchplan {

// Views what it is created from, which must outlive it.
class Pass {
 public:
  // Of options.passes[index], whose groups have these sizes (PassLimits::sizes), in `mini_batches`
  // mini-batches.
  // InvalidArgument, naming field and limit, if no row bucket holds the longest sequence, if a
  // group of sequences that stays in one micro-batch can't be right, if the micro-batches would be
  // too many, or if the cost overflows or has no scale; Cancelled if a stop is requested.
  static absl::StatusOr<Pass> Create(const Manifest& manifest, const PlanOptions& options,
                                     size_t index, std::vector<GroupLimits> sizes,
                                     const PlannedLengths& planned, Alignments& alignments,
                                     const Groups& groups, size_t mini_batches,
                                     const Allowance& allowance = {},
                                     const SharedPrefixes& prefixes = NothingShared(),
                                     const Loads& loads = NoLoads());

  // This pass under other options of how to assign. `method` may differ from options() in sharding,
  // packer, scan, what ranks are balanced on and equal counts.
  Pass With(const PassOptions& method) const;
  // This pass with another effort.
  Pass With(Effort effort) const;
  // Only if sizes differ: this pass with SHARDING_BALANCED and with size number `size` for all
  // groups, as if that were the topology's context_parallel. Its costs have a scale of their own.
  // None if that size does not divide the pool or does not hold every sequence, or if Create
  // refuses such a pass.
  std::optional<Pass> OnOneSize(size_t size) const;

  const PassOptions& options() const { return *options_; }
  // How errors name the pass.
  const std::string& where() const { return where_; }
  // How errors name the pass in mini-batch `k`.
  std::string WhereOf(size_t k) const;
  const Topology& topology() const { return *topology_; }
  // Whether groups of several sizes may run beside each other (topology.dynamic_context). If not,
  // sizes() has one entry, and methods with a `size` know number 0 alone.
  bool sizes_differ() const { return topology_->dynamic_context.has_value(); }
  // The sizes that groups may have, ascending, and what they hold.
  std::span<const GroupLimits> sizes() const { return sizes_; }
  // The number of a size in sizes(); sizes().size() if it is none of them.
  size_t SizeOf(uint32_t ranks) const;
  uint32_t length_multiple() const { return sizes_.front().multiple; }
  // Ranks that each slot divides.
  uint32_t pool() const { return static_cast<uint32_t>(PoolOf(*topology_)); }
  // If sizes don't differ, the groups of each slot. Each runs micro-batches of its own, so solvers
  // call it a rank.
  uint32_t ranks() const { return topology_->data_parallel; }
  // The micro-batches of a slot; if sizes differ, the fewest groups of the allowed sizes.
  uint64_t fewest_groups() const;
  // At least 1.
  size_t mini_batches() const { return mini_batches_; }
  bool allow_empty() const { return allow_empty_; }
  // The most micro-batches of a mini-batch, on all ranks, if some of them are empty.
  uint64_t most_with_empty() const {
    return pipeline_ == nullptr
               ? kMaxEmptyMicrobatches
               : std::min(kMaxEmptyMicrobatches, kMaxPipelineWorks / pipeline_->virtual_stages());
  }
  Synchronization synchronization() const { return synchronization_; }
  Effort effort() const { return effort_; }
  // Whether ranks run the same positions of their sorted orders at the same widths.
  bool same_widths() const { return same_widths_; }
  // The rule for a rank's micro-batches, or for slots.
  const CountRule& counts() const { return counts_; }
  // The part of counts() that the pipeline's schedule asks for.
  CountRule schedule_counts() const {
    return CountRuleOf(*topology_, request_->pipeline, PassOptions());
  }
  // The order that is asked for; kPipeline with a pipeline alone.
  MicrobatchOrder order() const {
    return options_->order == MicrobatchOrder::kPipeline && pipeline_ == nullptr
               ? MicrobatchOrder::kAsAssigned
               : options_->order;
  }
  // What each rank runs its micro-batches on, in scaled units of cost; null without a pipeline.
  const Pipeline* pipeline() const { return pipeline_.get(); }
  StepClock clock() const { return StepClock(synchronization_, pipeline()); }
  const CostModel& cost_model() const { return request_->cost_model; }
  // The cost for one rank of a group of that size. All sizes have one scale.
  const CostFunction& cost(size_t size = 0) const { return costs_[size]; }
  // The cost without exchange. If sizes differ it is that of the smallest size, in a scale of its
  // own; else cost().
  const CostFunction& computation() const { return computation_ ? *computation_ : cost(); }
  // The limits of a packed row. If sizes differ, each has a limit of its own
  // (GroupLimits::widest_row).
  const BinLimits& bin_limits() const { return bin_limits_; }
  // The limits of a padded micro-batch.
  const PaddedLimits& padded_limits() const { return padded_limits_; }
  // By manifest position, as a group of that size aligns; 0 for a dropped sequence.
  std::span<const uint32_t> aligned(size_t size = 0) const { return *aligned_[size]; }
  // The room that a sequence fills in its micro-batch, in aligned tokens: all of it if the sequence
  // runs alone.
  uint32_t RoomOf(SequenceIndex sequence) const {
    return RunsAlone(sequence) ? longest_beside_ : aligned()[sequence.value()];
  }

  // The prefixes that sequences of one row share; null if every sequence is computed whole. With
  // prefixes, single sequences are not aligned in a row.
  const SharedPrefixes* prefixes() const { return prefixes_; }

  // The loads of sequences beside tokens, with their limits and phases.
  const PassLoads& loads() const { return loads_; }

  // The manifest's kinds, by position.
  std::span<const uint32_t> kinds() const { return manifest_->kinds; }
  // Whether options().kinds_per_slot keeps kinds apart.
  bool keeps_kinds() const { return keeps_kinds_; }
  // This pass for sequences whose kinds may share a slot, with another rule for the number of
  // micro-batches, none of them empty unless `may_be_empty`.
  Pass OfOneKind(bool may_be_empty, const CountRule& counts) const;

  // Whether rows depend on more than sums of tokens and costs: on prefixes, limits on loads, phases
  // or a multiple of sequences. rows/solve_rows.h then makes them.
  bool is_joint() const {
    return options_->layout == Layout::kPacked &&
           (prefixes_ != nullptr || !loads_.limits().empty() || !loads_.phases().empty() ||
            (row_multiple() > 1 && !is_plain_));
  }
  // Of a joint pass, the same pass without sharing, and with a budget of tokens alone; phases that
  // are not dealt are then part of all costs. Null if Create refuses that pass: groups that stay in
  // one micro-batch are longer without sharing.
  const Pass* plain() const { return plain_.get(); }
  // plain() whose phases cost nothing. Null if it would equal plain().
  const Pass* without_phases() const { return without_phases_.get(); }
  // plain() with any number of sequences in a micro-batch. Null if it would equal plain().
  const Pass* without_multiple() const { return without_multiple_.get(); }
  // Whether a sequence exceeds what micro-batches hold, in tokens or in a load, so that it runs
  // alone.
  bool RunsAlone(SequenceIndex sequence) const {
    return aligned()[sequence.value()] > longest_beside_ || loads_.IsAboveLimits(sequence);
  }

  // The manifest's groups, by position.
  std::span<const uint32_t> group_ids() const { return manifest_->group_ids; }
  // By manifest position, the ranks that the manifest gives; empty: the planner decides.
  std::span<const uint32_t> given_ranks() const { return manifest_->ranks; }
  const Groups& groups() const { return *groups_; }
  // Whether groups go to one rank, and to one micro-batch, as a whole.
  bool groups_keep_rank() const { return groups_keep_rank_; }
  bool groups_keep_microbatch() const { return groups_keep_microbatch_; }
  // Whether ranks have equal counts of a mini-batch's sequences, which the first pass decides.
  bool keeps_counts() const {
    return request_->passes.front().keeps_counts() && !options_->ignore_mini_batches;
  }
  // The divisor of the number of sequences in each micro-batch, and of that on each rank in a
  // mini-batch, which all passes determine together.
  uint32_t row_multiple() const { return options_->sequence_count_multiple; }
  uint32_t rank_multiple() const { return rank_multiple_; }
  // This pass with any number of sequences in a micro-batch.
  Pass WithoutMultiples() const;
  // Whether an item may have more than one sequence, and whether a unit more than one item.
  bool items_are_lists() const { return groups_keep_microbatch_ || row_multiple() > 1; }
  bool units_are_lists_of_items() const {
    return (groups_keep_rank_ && !groups_keep_microbatch_) || rank_multiple_ != row_multiple();
  }
  // Whether packed bins may go to any rank, whatever is in them.
  bool may_deal_bins() const;

  // `sequences` as what goes to one micro-batch whole, in the order of their first members.
  SequenceLists ItemLists(std::span<const SequenceIndex> sequences) const;
  // `sequences` as items and as units, in the order of their first members.
  Items ItemsOf(std::span<const SequenceIndex> sequences) const;
  Units UnitsOf(std::span<const SequenceIndex> sequences) const;
  // The lists of sequences that make units.
  SequenceLists UnitLists(std::span<const SequenceIndex> sequences) const;
  // Each list as one item, whatever the groups. Costs are right for any list, lengths for one that
  // is in one micro-batch.
  Items ItemsFrom(SequenceLists lists) const;
  // What each sequence costs as an item of its own.
  std::vector<Cost> SequenceCosts(std::span<const SequenceIndex> sequences) const;
  // Costs beside whole rows, or tokens if the pass is balanced on tokens and has no pipeline.
  Objective ObjectiveOf(const Items& items) const;

  // If rows are as wide as the longest or as their capacity, the linear cost of tokens is the same
  // for every row of a size: at most CostOfWholeRow of the capacity. Solvers then even out only
  // attention, exchange and the fixed costs of sequences: the cost of an item less CostOfTokens.
  // Rows padded to buckets count as unpadded; for these both are 0.
  bool rows_are_whole() const {
    return options_->rows == RowPadding::kLongest || options_->rows == RowPadding::kCapacity;
  }
  Cost CostOfWholeRow(uint64_t width, size_t size = 0) const {
    return rows_are_whole() ? cost(size).OfTail(width) : 0;
  }
  Cost CostOfTokens(uint64_t tokens, Cost cost_of_all, size_t size = 0) const {
    return rows_are_whole() ? std::min(cost(size).OfTail(tokens), cost_of_all) : 0;
  }

  // The widths of one mini-batch's micro-batches with rows padded as the pass asks. Packed rows
  // within their group's capacity are widened. Wider rows, which hold a sequence alone, empty ones
  // and padded micro-batches stay as they are. `context_sizes` is as in Placement: of rows as wide
  // as the longest, each goes by the longest of its size.
  std::vector<uint32_t> RowWidths(std::vector<uint32_t> widths,
                                  std::span<const uint32_t> context_sizes) const;
  // The tokens of a packed row of these sequences, without its tail. Where sequences share, they
  // are in depth-first order, and the row is rounded up to the length multiple.
  uint32_t RowOf(std::span<const SequenceIndex> microbatch) const;
  // The cost of a micro-batch on a group of that size, its row or padded width being `width`
  // tokens. An empty one has the fixed cost alone. Where sequences share, they are in depth-first
  // order.
  Cost CostOf(std::span<const SequenceIndex> microbatch, uint32_t width, size_t size = 0) const;
  // True tokens, of all sequences of each list.
  std::vector<uint64_t> TrueTokensOf(const SequenceLists& lists) const;

 private:
  Pass(const Manifest& manifest, const PlanOptions& options, size_t index,
       std::vector<GroupLimits> sizes, const PlannedLengths& planned, const Groups& groups,
       const SharedPrefixes& prefixes, const Loads& loads, size_t mini_batches);

  // This pass without limits, its phases part of all costs or of none.
  Pass Plain(bool with_phases) const;
  absl::Status SetCosts(const PlanOptions& options);
  // `first`: the sharding of the request's first pass, which gives ranks their sequences.
  void SetRows(Sharding first);
  // The InvalidArgument errors of Create that need all else to be set.
  absl::Status Check() const;

  const Manifest* manifest_;
  const PlanOptions* request_;
  std::shared_ptr<const PassOptions> options_;
  std::shared_ptr<const Topology> topology_;
  std::string where_;
  std::vector<GroupLimits> sizes_;
  size_t mini_batches_;
  bool allow_empty_;
  Synchronization synchronization_;
  Effort effort_;
  bool groups_keep_microbatch_;
  bool groups_keep_rank_;
  const Groups* groups_;
  const SharedPrefixes* prefixes_;
  PassLoads loads_;
  std::shared_ptr<const Pass> plain_;
  std::shared_ptr<const Pass> without_phases_;
  std::shared_ptr<const Pass> without_multiple_;
  bool is_plain_ = false;
  uint32_t rank_multiple_;
  CountRule counts_;
  std::span<const uint32_t> planned_;
  std::vector<AlignedLengths> aligned_;
  std::vector<CostFunction> costs_;
  std::optional<CostFunction> computation_;
  std::shared_ptr<const Pipeline> pipeline_;
  BinLimits bin_limits_;
  PaddedLimits padded_limits_;
  // Sequences whose aligned length is above it run alone.
  uint32_t longest_beside_ = 0;
  bool some_run_alone_ = false;
  bool same_widths_ = false;
  bool keeps_kinds_ = false;
};

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_PASS_PASS_H_
