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

// The sequences of a batch, once for each pass: a plan lists each of them in every pass.
inline constexpr uint64_t kMaxPlannedSequences = uint64_t{1} << 22;

// Virtual stages of a pipeline; and of all of a plan's micro-batches, the virtual stages that they
// go through, forwards and backwards counted as one.
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

// Groups of the data_parallel * context_parallel ranks, which differ from micro-batch to
// micro-batch.
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
  // Mini-batches that what moves as a whole may be trained from its place.
  uint32_t max_delay = 0;
  // Groups in a mini-batch; 0: `size` counts.
  uint32_t group_count = 0;
  LastMiniBatch last = LastMiniBatch::kExact;

  // `groups`, or what group_count implies: a group that is counted is in one mini-batch.
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

// What ranks spend on a token, in groups of up to `up_to_size` ranks.
struct ContextExchange {
  // 0: all larger ones.
  uint32_t up_to_size = 0;
  double per_token = 0;

  friend bool operator==(const ContextExchange&, const ContextExchange&) = default;
};

// What a load of the manifest costs.
struct LoadCost {
  std::string load;
  // Of each of the ranks that share a micro-batch, divided by their number.
  double per_unit = 0;
  // In a phase of its own, for which ranks wait for each other.
  bool separate = false;
  // Its items are dealt to the ranks of a slot. Implies a phase of its own.
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
  // By size of the group, ascending: the first entry that reaches c costs per_token * L * (c - 1) /
  // c; none: nothing.
  std::vector<ContextExchange> exchange = {};
  // Only what attention does not hide is paid: max(0, exchange - per_token_squared * L^2 / c).
  bool exchange_overlaps = false;
  // Beside all that, or alone.
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

// Counted in the steps of each search and in the ticks of all together, never in time, so that the
// same request gives the same plan on every machine.
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

// With dynamic_context, of the row's group: the longest of its size, what it holds
// (GroupLimits::capacity), or the buckets that it has (GroupLimits::buckets).
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

// How equal ranks are in the number of their sequences of a mini-batch: n divided by the ranks, or
// that rounded down or up.
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
  // Of the sequences of each micro-batch.
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
  // Every sequence whole, whatever the manifest says of prefixes.
  bool ignore_shared_prefixes = false;
  std::vector<LoadLimit> limits = {};
  KindsPerSlot kinds_per_slot = KindsPerSlot::kAny;
  // That these options were made from; empty: none. Decides on nothing.
  std::string preset = {};

  // Whether ranks have as many sequences as each other, or as nearly as can be.
  bool keeps_counts() const { return sequence_counts != EqualCounts::kAny; }
  friend bool operator==(const PassOptions&, const PassOptions&) = default;
};

// The field that asks for them, for errors: "equal_sequence_counts is set".
absl::string_view AskedAs(EqualCounts counts);

// Whether it forms rows of what sequences share.
bool IsOfTrees(Sharding sharding);

// As the contract names them.
absl::string_view NameOf(Sharding sharding);
absl::string_view NameOf(Packer packer);

// Whether ranks that `sharding` gave their sequences run the pass at the same widths: they take
// turns in the sorted order, so that the same positions of each form a micro-batch.
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

// What a topology has where the request leaves it open: how its ranks wait for each other, and what
// sequences cost. Ranks that are pipelines, and groups that differ in size, have costs without
// which ever more micro-batches, or the whole pool as one group, would always be best: what
// launching a micro-batch's kernels takes, in tokens; and of a token's cost what exchanging keys
// and values takes with grouped-query attention, over NVLink in a node of eight and over InfiniBand
// beyond.
Synchronization DefaultSynchronization(const Topology& topology);
CostModel DefaultCosts(const Topology& topology);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_REQUEST_OPTIONS_H_
