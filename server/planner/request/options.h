// What is asked of a plan: the machine, the constraints, the algorithms. Plain values with their
// defaults; the documentation for users is proto/batchplan/v1/options.proto, which these mirror.

#ifndef BATCHPLAN_SERVER_PLANNER_REQUEST_OPTIONS_H_
#define BATCHPLAN_SERVER_PLANNER_REQUEST_OPTIONS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"

namespace batchplan {

// The largest parallel size accepted; far above any cluster, far below overflow.
inline constexpr uint32_t kMaxParallelSize = 65536;

// Far more uses of a batch than a training step has.
inline constexpr size_t kMaxPasses = 64;

// The most sequences of a batch times its passes: a plan lists every sequence in every pass.
inline constexpr uint64_t kMaxPlannedSequences = uint64_t{1} << 22;

// The most virtual stages of a pipeline; and the most virtual stages that all micro-batches of a
// plan go through, a forward and its backward counted as one.
inline constexpr uint32_t kMaxVirtualStages = 512;
inline constexpr uint64_t kMaxPipelineWorks = uint64_t{1} << 24;

// Far beyond any model's.
inline constexpr double kMinBackwardRatio = 1e-3;
inline constexpr double kMaxBackwardRatio = 1e3;

// More than there are sizes of context-parallel groups that are powers of two.
inline constexpr size_t kMaxExchanges = 64;

// Loads of a batch beside tokens, and the bytes of a name of one.
inline constexpr size_t kMaxLoads = 8;
inline constexpr size_t kMaxLoadName = 64;

// Coefficients that are not 0 stay between these, so that no sum leaves the range of a double.
inline constexpr double kMinCoefficient = 1e-100;
inline constexpr double kMaxCoefficient = 1e100;

// Groups of ranks whose sizes differ from slot to slot; each slot divides the data_parallel *
// context_parallel ranks.
struct DynamicContext {
  uint32_t min_size = 1;
  // 0: the pool.
  uint32_t max_size = 0;
};

struct Topology {
  uint32_t data_parallel = 1;
  uint32_t context_parallel = 1;
  uint32_t tensor_parallel = 1;
  uint32_t pipeline_parallel = 1;
  uint32_t virtual_pipeline = 1;
  bool sequence_parallel = false;
  std::optional<DynamicContext> dynamic_context = {};
};

enum class Order { kPreserved, kShuffled, kStratified };

enum class GroupPolicy { kIgnore, kSameMiniBatch, kSameRank, kSameMicrobatch };

// What becomes of sequences, or groups, that do not fill the last mini-batch.
enum class LastMiniBatch { kExact, kSmaller };

struct MiniBatching {
  // Sequences in a mini-batch; 0: one mini-batch.
  uint32_t size = 0;
  Order order = Order::kPreserved;
  uint64_t seed = 0;
  GroupPolicy groups = GroupPolicy::kIgnore;
  // By how many mini-batches a sequence, or a group that stays together, may move.
  uint32_t max_delay = 0;
  // Groups in a mini-batch; 0: `size` counts.
  uint32_t group_count = 0;
  LastMiniBatch last = LastMiniBatch::kExact;

  // `groups`, or what group_count implies: counted groups stay in one mini-batch.
  GroupPolicy policy() const {
    const bool raised = group_count > 0 && groups == GroupPolicy::kIgnore;
    return raised ? GroupPolicy::kSameMiniBatch : groups;
  }
};

// Which part of the manifest is planned. Exactly one of the first three is above 0.
struct Selection {
  uint32_t sequences = 0;
  uint32_t groups = 0;
  uint64_t max_tokens = 0;
  // 0: any age.
  uint32_t max_age = 0;
  uint32_t max_overtaking = 0;

  friend bool operator==(const Selection&, const Selection&) = default;
};

// What a token's exchange costs in groups of up to `up_to_size` ranks.
struct ContextExchange {
  // 0: all larger ones.
  uint32_t up_to_size = 0;
  double per_token = 0;

  friend bool operator==(const ContextExchange&, const ContextExchange&) = default;
};

// What a load of the manifest costs.
struct LoadCost {
  std::string load;
  // Cost of a unit; the ranks that share a micro-batch divide it.
  double per_unit = 0;
  // Whether it is a phase of its own, after which ranks wait for each other.
  bool separate = false;
  // Whether its items are dealt to the ranks of a slot. Implies a phase of its own.
  bool dealt = false;

  bool has_phase() const { return separate || dealt; }
  friend bool operator==(const LoadCost&, const LoadCost&) = default;
};

// What each of c context-parallel ranks pays: for a sequence (per_token * L +
// per_token_squared * L^2) / c + exchange + per_sequence, L the aligned length, or the width in the
// padded layout; for a micro-batch the sum + per_microbatch + per_token / c * tail padding.
struct CostModel {
  double per_token = 1.0;
  double per_token_squared = 1.0 / 24576;
  double per_microbatch = 0.0;
  double per_sequence = 0.0;
  // By size of the group, ascending: the first entry with up_to_size >= c costs per_token * L * (c
  // - 1) / c; without such an entry there is no cost.
  std::vector<ContextExchange> exchange = {};
  // Only what attention does not hide is paid: max(0, exchange - per_token_squared * L^2 / c).
  bool exchange_overlaps = false;
  // On top of the above, which may be 0.
  std::vector<LoadCost> loads = {};
};

enum class PipelineSchedule { kOneFOneB, kInterleaved };

// How topology.pipeline_parallel stages share the model, and in which order they run micro-batches
// (time/schedule.h).
struct PipelineOptions {
  // Unset: interleaved where there are virtual stages.
  std::optional<PipelineSchedule> schedule;
  // Micro-batches of a group of the interleaved schedule; 0: pipeline_parallel.
  uint32_t group_size = 0;
  // Of backward over forward.
  double backward_ratio = 2;
  // pipeline_parallel * virtual_pipeline parts, in any unit; empty: equal ones.
  std::vector<double> stage_shares;
  // Cost from one virtual stage to the next.
  double transfer = 0;
};

// Counted in steps of each search and in ticks of all together, never in time: the same request
// gives the same plan on every machine.
enum class Effort { kFast, kDefault, kThorough };

enum class Synchronization { kLockstep, kAccumulated };

enum class OverlongPolicy { kReject, kTruncate, kDrop, kAlone };

enum class BalanceOn { kTokens, kCost };

enum class Packer {
  kBalanced,
  kConcatenative,
  kFirstFitDecreasing,
  kFirstFitShuffle,
  kModifiedFirstFitDecreasing,
  kBestFitDecreasing,
  kKarmarkarKarp,
};

enum class Layout { kPacked, kPadded };

enum class Scan { kSorted, kOptimal };

// With dynamic_context it goes by the row's group: to the longest row of its size, to its capacity
// (GroupLimits::capacity), or to its buckets (GroupLimits::buckets).
enum class RowPadding { kNone, kLongest, kCapacity, kBuckets };

enum class Sharding {
  kBalanced,
  kDealBins,
  kStrideSorted,
  kKarmarkarKarp,
  kLpt,
  kContiguous,
  kMegatronDynamicCp,
  kArealTree,
  kTrlTree,
  kArtPrefixTree,
};

// The most that a micro-batch may have of a load of the manifest.
struct LoadLimit {
  std::string load;
  double max_per_microbatch = 0;

  friend bool operator==(const LoadLimit&, const LoadLimit&) = default;
};

// How many of the n sequences of a mini-batch each rank has: any number, n / ranks, or that rounded
// down or up.
enum class EqualCounts { kAny, kExact, kWithinOne };

enum class KindsPerSlot { kAny, kTogether, kAlike };

enum class MicrobatchOrder { kAsAssigned, kLargestFirst, kSmallAtBothEnds, kPipeline };

struct PassOptions {
  std::string name;
  uint32_t max_tokens_per_microbatch = 0;
  uint32_t length_multiple = 1;
  // Both per rank and mini-batch.
  uint32_t min_microbatches = 1;
  uint32_t microbatch_count_multiple = 1;
  // 0: no limit.
  uint32_t max_sequences_per_microbatch = 0;
  // Divides the number of sequences of each micro-batch.
  uint32_t sequence_count_multiple = 1;
  BalanceOn balance_on = BalanceOn::kCost;
  Layout layout = Layout::kPacked;
  // For the packed layout.
  Packer packer = Packer::kBalanced;
  RowPadding rows = RowPadding::kNone;
  std::vector<uint32_t> buckets;
  // For the padded layout.
  Scan scan = Scan::kSorted;
  Sharding sharding = Sharding::kBalanced;
  EqualCounts sequence_counts = EqualCounts::kAny;
  MicrobatchOrder order = MicrobatchOrder::kAsAssigned;
  bool ignore_mini_batches = false;
  bool forward_only = false;
  // Computes every sequence whole, whatever the manifest says of prefixes.
  bool ignore_shared_prefixes = false;
  std::vector<LoadLimit> limits = {};
  KindsPerSlot kinds_per_slot = KindsPerSlot::kAny;
  // The preset that these options were made from; empty: none. Decides nothing.
  std::string preset = {};

  // Whether ranks have equal numbers of sequences, exactly or within one.
  bool keeps_counts() const { return sequence_counts != EqualCounts::kAny; }
  friend bool operator==(const PassOptions&, const PassOptions&) = default;
};

// For errors, the field that asks for the counts: "equal_sequence_counts is set".
absl::string_view AskedAs(EqualCounts counts);

// Whether the sharding forms rows by shared prefixes.
bool IsOfTrees(Sharding sharding);

// Their names in the contract.
absl::string_view NameOf(Sharding sharding);
absl::string_view NameOf(Packer packer);

// Whether ranks run the pass at the same widths if `sharding` gave them their sequences: then they
// took turns in the sorted order, and the same positions of each form a micro-batch.
bool SharesWidths(const PassOptions& pass, Sharding sharding);

struct PlanOptions {
  Topology topology;
  MiniBatching mini_batches;
  CostModel cost_model;
  // Of pipeline_parallel > 1.
  PipelineOptions pipeline;
  Synchronization synchronization = Synchronization::kLockstep;
  Effort effort = Effort::kDefault;
  OverlongPolicy overlong = OverlongPolicy::kReject;
  bool allow_empty_microbatches = false;
  // Unset: all of the manifest is planned.
  std::optional<Selection> selection = {};
  std::vector<PassOptions> passes;

  // InvalidArgument for values that no manifest could make right; the message names field and
  // value.
  absl::Status Validate() const;
};

// The defaults of a topology: how its ranks wait for each other, and costs. On pipelines, and with
// groups that differ in size, a micro-batch has a fixed cost, about that of launching its kernels
// in tokens; without it ever more micro-batches would be best. Groups that differ in size also have
// an exchange cost, as a part of a token's cost: about that of keys and values with grouped-query
// attention, over NVLink in a node of eight and over InfiniBand beyond; without it the whole pool
// as one group would be best.
Synchronization DefaultSynchronization(const Topology& topology);
CostModel DefaultCosts(const Topology& topology);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_REQUEST_OPTIONS_H_
