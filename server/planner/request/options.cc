#include "server/planner/request/options.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "server/planner/request/context_sizes.h"
#include "server/planner/request/cost_checks.h"
#include "server/planner/request/count_multiples.h"
#include "server/planner/request/pass_option_checks.h"

namespace batchplan {
namespace {

absl::Status CheckParallelSize(absl::string_view name, uint32_t size) {
  if (size >= 1 && size <= kMaxParallelSize) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("topology.", name, " is ", size,
                                                 "; it must be between 1 and ", kMaxParallelSize));
}

absl::Status CheckTopology(const Topology& topology) {
  const struct {
    absl::string_view name;
    uint32_t size;
  } sizes[] = {{"data_parallel", topology.data_parallel},
               {"context_parallel", topology.context_parallel},
               {"tensor_parallel", topology.tensor_parallel},
               {"pipeline_parallel", topology.pipeline_parallel},
               {"virtual_pipeline", topology.virtual_pipeline}};
  for (const auto& [name, size] : sizes) {
    if (absl::Status status = CheckParallelSize(name, size); !status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status CheckMiniBatches(const MiniBatching& mini_batches) {
  if (mini_batches.size == 0 || mini_batches.group_count == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "mini_batches.size is ", mini_batches.size, ", and group_count ", mini_batches.group_count,
      ", which counts groups in its place; leave one of them at 0"));
}

absl::Status CheckSelection(const std::optional<Selection>& selection,
                            const MiniBatching& mini_batches) {
  if (!selection) return absl::OkStatus();
  const int targets =
      (selection->sequences > 0) + (selection->groups > 0) + (selection->max_tokens > 0);
  if (targets != 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        "selection.sequences is ", selection->sequences, ", groups ", selection->groups,
        " and max_tokens ", selection->max_tokens, "; exactly one of them must be at least 1"));
  }
  if (mini_batches.last == LastMiniBatch::kSmaller) return absl::OkStatus();
  if (mini_batches.size > 0 && selection->sequences % mini_batches.size != 0) {
    return absl::InvalidArgumentError(absl::StrCat("mini_batches.size is ", mini_batches.size,
                                                   ", which does not divide selection.sequences ",
                                                   selection->sequences));
  }
  if (mini_batches.group_count > 0 && selection->groups % mini_batches.group_count != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("mini_batches.group_count is ", mini_batches.group_count,
                     ", which does not divide selection.groups ", selection->groups));
  }
  return absl::OkStatus();
}

}  // namespace

absl::string_view AskedAs(EqualCounts counts) {
  switch (counts) {
    case EqualCounts::kAny:
      return "sequence_counts is not set";
    case EqualCounts::kExact:
      return "equal_sequence_counts is set";
    case EqualCounts::kWithinOne:
      return "sequence_counts is EQUAL_COUNTS_WITHIN_ONE";
  }
  return "sequence_counts is set";
}

bool IsOfTrees(Sharding sharding) {
  return sharding == Sharding::kArealTree || sharding == Sharding::kTrlTree ||
         sharding == Sharding::kArtPrefixTree;
}

absl::string_view NameOf(Sharding sharding) {
  switch (sharding) {
    case Sharding::kBalanced:
      return "SHARDING_BALANCED";
    case Sharding::kDealBins:
      return "SHARDING_DEAL_BINS";
    case Sharding::kStrideSorted:
      return "SHARDING_STRIDE_SORTED";
    case Sharding::kKarmarkarKarp:
      return "SHARDING_KARMARKAR_KARP";
    case Sharding::kLpt:
      return "SHARDING_LPT";
    case Sharding::kContiguous:
      return "SHARDING_CONTIGUOUS";
    case Sharding::kMegatronDynamicCp:
      return "SHARDING_MEGATRON_DYNAMIC_CP";
    case Sharding::kArealTree:
      return "SHARDING_AREAL_TREE";
    case Sharding::kTrlTree:
      return "SHARDING_TRL_TREE";
    case Sharding::kArtPrefixTree:
      return "SHARDING_ART_PREFIX_TREE";
  }
  return "no sharding";
}

absl::string_view NameOf(Packer packer) {
  switch (packer) {
    case Packer::kBalanced:
      return "PACKER_BALANCED";
    case Packer::kConcatenative:
      return "PACKER_CONCATENATIVE";
    case Packer::kFirstFitDecreasing:
      return "PACKER_FIRST_FIT_DECREASING";
    case Packer::kFirstFitShuffle:
      return "PACKER_FIRST_FIT_SHUFFLE";
    case Packer::kModifiedFirstFitDecreasing:
      return "PACKER_MODIFIED_FIRST_FIT_DECREASING";
    case Packer::kBestFitDecreasing:
      return "PACKER_BEST_FIT_DECREASING";
    case Packer::kKarmarkarKarp:
      return "PACKER_KARMARKAR_KARP";
  }
  return "no packer";
}

bool SharesWidths(const PassOptions& pass, Sharding sharding) {
  return pass.layout == Layout::kPadded && pass.scan == Scan::kSorted &&
         sharding == Sharding::kStrideSorted;
}

absl::Status PlanOptions::Validate() const {
  // In this order, since later checks rely on earlier ones.
  if (absl::Status status = CheckTopology(topology); !status.ok()) return status;
  if (absl::Status status = CheckPipeline(topology, pipeline); !status.ok()) return status;
  if (absl::Status status = CheckCostModel(cost_model); !status.ok()) return status;
  if (absl::Status status = CheckMiniBatches(mini_batches); !status.ok()) return status;
  if (absl::Status status = CheckSelection(selection, mini_batches); !status.ok()) return status;
  if (absl::Status status = CheckPasses(*this); !status.ok()) return status;
  if (absl::Status status = CheckCountMultiples(*this); !status.ok()) return status;
  return CheckDynamicContext(*this);
}

Synchronization DefaultSynchronization(const Topology& topology) {
  return topology.pipeline_parallel > 1 ? Synchronization::kAccumulated
                                        : Synchronization::kLockstep;
}

CostModel DefaultCosts(const Topology& topology) {
  CostModel model;
  if (topology.pipeline_parallel > 1 || topology.dynamic_context) model.per_microbatch = 1024;
  if (topology.dynamic_context) {
    model.exchange = {{.up_to_size = 8, .per_token = 0.02}, {.up_to_size = 0, .per_token = 0.065}};
  }
  return model;
}

}  // namespace batchplan
