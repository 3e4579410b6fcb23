// What one pass asks of the groups of a pool: the request, boiled down to the lengths, costs and
// limits of each size of group. What PassInstance is to single ranks.

#ifndef BATCHPLAN_SERVER_PLANNER_CONTEXT_CONTEXT_PASS_H_
#define BATCHPLAN_SERVER_PLANNER_CONTEXT_CONTEXT_PASS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/planner/allowance.h"
#include "server/planner/context/context_problem.h"
#include "server/planner/context/context_sizes.h"
#include "server/planner/cost.h"
#include "server/planner/lengths.h"
#include "server/planner/manifest.h"
#include "server/planner/mini_batches.h"
#include "server/planner/options.h"
#include "server/planner/pass_instance.h"
#include "server/planner/pipeline/schedule.h"

namespace batchplan {

// The sizes without those that are of no use (WithoutDearSizes), and of very many sequences without
// the largest: so that sizes times sequences are at most kMostItemSizes, or no size is larger than
// the least that holds every sequence. Among so many, there are always some that fill what small
// groups leave, and memory grows with the product.
inline constexpr uint64_t kMostItemSizes = uint64_t{1} << 21;
std::vector<GroupLimits> UsefulSizes(const PlanOptions& options, size_t index,
                                     std::span<const GroupLimits> limits,
                                     const PlannedLengths& planned);

// The sizes without those that are of no use: where, of each sequence, every rank exchanges for
// longer than kDearExchange times what it takes altogether in others that are left and hold it, and
// all ranks together too. Costs of all sizes have one scale, in which little would be left of the
// others. The smallest stays, and all do where SHARDING_MEGATRON_DYNAMIC_CP chooses sizes, whatever
// these exchange. O(n + sizes^2).
inline constexpr double kDearExchange = 64;
std::vector<GroupLimits> WithoutDearSizes(const PlanOptions& options, size_t index,
                                          std::span<const GroupLimits> limits,
                                          const PlannedLengths& planned);

// Views what it is created from, which must outlive it.
class ContextPass {
 public:
  // Of options.passes[index], whose limits (GroupLimitsOf) are given, in `mini_batches`
  // mini-batches. Keeps the aligned lengths of every size.
  // InvalidArgument, naming field and limit, if a group of sequences that stays in one micro-batch
  // fits no group of ranks, if the micro-batches would be too many, or if there is no scale for the
  // costs; Cancelled if a stop is requested.
  static absl::StatusOr<ContextPass> Create(const Manifest& manifest, const PlanOptions& options,
                                            size_t index, std::vector<GroupLimits> limits,
                                            const PlannedLengths& planned, const Groups& groups,
                                            size_t mini_batches, const Allowance& allowance);

  const PassOptions& options() const { return *options_; }
  const Topology& topology() const { return *topology_; }
  // How errors name the pass.
  const std::string& where() const { return where_; }
  // Ranks that each slot divides.
  uint32_t pool() const { return pool_; }
  // The sizes that groups may have, ascending, and what they hold.
  std::span<const GroupLimits> limits() const { return limits_; }
  // The number of a size in limits(); limits().size() if it is none of them.
  size_t SizeOf(uint32_t ranks) const;
  // The groups of a slot, at least, of all sizes that the topology allows.
  uint64_t fewest_groups() const;
  // Of slots.
  const CountRule& counts() const { return counts_; }
  Synchronization synchronization() const { return synchronization_; }
  Effort effort() const { return effort_; }
  bool allow_empty() const { return allow_empty_; }
  // Null without a pipeline. In scaled units of cost.
  const Pipeline* pipeline() const { return pipeline_.get(); }
  StepClock clock() const { return StepClock(synchronization_, pipeline()); }
  // The order that is asked for; kPipeline with a pipeline alone.
  MicrobatchOrder order() const;
  // Costs of one rank of a group of that size; all of one scale.
  const CostFunction& cost(size_t size) const { return costs_[size]; }
  // The same of the smallest size without the exchange, in a scale of its own.
  const CostFunction& computation() const { return computation_.front(); }
  // By manifest position, as a group of that size aligns; 0 for a dropped sequence.
  std::span<const uint32_t> aligned(size_t size) const { return *aligned_[size]; }
  const AlignedLengths& aligned_lengths(size_t size) const { return aligned_[size]; }

  // `sequences` as what goes to one micro-batch whole, in the order of their first members.
  SequenceLists ItemsOf(std::span<const SequenceIndex> sequences) const;
  // What there is to solve for these items; Cancelled if a stop is requested.
  absl::StatusOr<ContextProblem> ProblemOf(const SequenceLists& items,
                                           const Allowance& allowance) const;

 private:
  ContextPass(const Manifest& manifest, const PlanOptions& options, size_t index,
              std::vector<GroupLimits> limits, const Groups& groups);

  absl::Status CheckGroupsFit(const Manifest& manifest) const;
  absl::Status CheckEmptySlots(size_t mini_batches) const;

  const PassOptions* options_;
  const Topology* topology_;
  std::string where_;
  uint32_t pool_;
  std::vector<GroupLimits> limits_;
  CountRule counts_;
  Synchronization synchronization_;
  Effort effort_;
  bool allow_empty_;
  bool groups_keep_microbatch_;
  const Groups* groups_;
  std::vector<AlignedLengths> aligned_;
  std::vector<CostFunction> costs_;
  std::vector<CostFunction> computation_;  // one
  std::shared_ptr<const Pipeline> pipeline_;
};

// One micro-batch on a group of so many ranks.
struct PlacedGroup {
  uint32_t ranks = 1;
  std::vector<SequenceIndex> sequences;
};

// The groups of each slot of one pass over one mini-batch. Those of a slot take the ranks of the
// pool in order.
using ContextPlacement = std::vector<std::vector<PlacedGroup>>;

// Slots of the problem that `pass` makes of `items`.
ContextPlacement PlacementOf(const ContextPass& pass, const SequenceLists& items,
                             const ContextSlots& slots);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_CONTEXT_CONTEXT_PASS_H_
