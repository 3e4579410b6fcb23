#include "server/planner/request/options.h"

#include <cmath>
#include <set>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "server/planner/request/context_sizes.h"
#include "server/planner/request/count_multiples.h"

namespace batchplan {
namespace {

absl::Status CheckParallelSize(absl::string_view name, uint32_t size) {
  if (size >= 1 && size <= kMaxParallelSize) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("topology.", name, " is ", size,
                                                 "; it must be between 1 and ", kMaxParallelSize));
}

absl::Status CheckCoefficient(absl::string_view name, double value) {
  // NaN is none of these.
  if (value == 0 || (value >= kMinCoefficient && value <= kMaxCoefficient)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("cost_model.", name, " is ", value,
                                                 "; it must be 0, or between ", kMinCoefficient,
                                                 " and ", kMaxCoefficient));
}

absl::Status CheckBuckets(const PassOptions& pass, absl::string_view where) {
  if (pass.rows != RowPadding::kBuckets) {
    if (pass.buckets.empty()) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat(where, ".packed.buckets has ", pass.buckets.size(),
                     " widths, but only ROW_PADDING_BUCKETS uses them; set packed.rows to it, or "
                     "leave them out"));
  }
  if (pass.buckets.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        where, ".packed.buckets is empty; ROW_PADDING_BUCKETS needs at least one width"));
  }
  for (size_t i = 0; i < pass.buckets.size(); ++i) {
    const uint32_t bucket = pass.buckets[i];
    if (bucket == 0 || bucket > pass.max_tokens_per_microbatch) {
      return absl::InvalidArgumentError(absl::StrCat(
          where, ".packed.buckets[", i, "] is ", bucket,
          "; it must be between 1 and max_tokens_per_microbatch ", pass.max_tokens_per_microbatch));
    }
    if (i > 0 && bucket <= pass.buckets[i - 1]) {
      return absl::InvalidArgumentError(absl::StrCat(where, ".packed.buckets[", i, "] is ", bucket,
                                                     ", not above the one before it, ",
                                                     pass.buckets[i - 1]));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckPass(const PassOptions& pass, absl::string_view where) {
  if (pass.max_tokens_per_microbatch == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(where, ".max_tokens_per_microbatch is 0; it must be at least 1"));
  }
  if (pass.length_multiple == 0 || pass.min_microbatches == 0 ||
      pass.microbatch_count_multiple == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(where, ": length_multiple ", pass.length_multiple, ", min_microbatches ",
                     pass.min_microbatches, " and microbatch_count_multiple ",
                     pass.microbatch_count_multiple, " must be at least 1"));
  }
  return CheckBuckets(pass, where);
}

// How sequences come to ranks, which the first pass decides for all.
absl::Status CheckSharding(const PassOptions& first, GroupPolicy groups) {
  constexpr absl::string_view where = "passes[0]";
  const bool is_of_trees = IsOfTrees(first.sharding);
  if (first.sharding != Sharding::kDealBins && !is_of_trees) return absl::OkStatus();
  if (first.layout == Layout::kPadded) {
    return absl::InvalidArgumentError(
        absl::StrCat(where, ".sharding is ", NameOf(first.sharding), ", which deals packed ",
                     is_of_trees ? "rows" : "bins", "; the layout is padded"));
  }
  if (first.keeps_counts()) {
    return absl::InvalidArgumentError(
        absl::StrCat(where, ".", AskedAs(first.sequence_counts), ", but ", NameOf(first.sharding),
                     " deals whole ", is_of_trees ? "rows" : "bins",
                     " and can't keep it; use a sharding that assigns sequences"));
  }
  if (is_of_trees && (groups == GroupPolicy::kSameRank || groups == GroupPolicy::kSameMicrobatch)) {
    return absl::InvalidArgumentError(
        absl::StrCat("mini_batches.groups keeps groups on a rank, but ", where, ".sharding is ",
                     NameOf(first.sharding), ", which tears them; set one of them otherwise"));
  }
  return absl::OkStatus();
}

// That a sequence which runs alone, in a row above the budget, leaves others as they are: neither
// makes their rows as wide nor leaves its group.
absl::Status CheckAlone(const PlanOptions& options) {
  if (options.overlong != OverlongPolicy::kAlone) return absl::OkStatus();
  if (options.mini_batches.groups == GroupPolicy::kSameMicrobatch) {
    return absl::InvalidArgumentError(
        "overlong is OVERLONG_POLICY_ALONE, but mini_batches.groups is "
        "GROUP_POLICY_SAME_MICROBATCH, and no sequence of a group runs alone; use another of the "
        "two");
  }
  for (size_t i = 0; i < options.passes.size(); ++i) {
    const PassOptions& pass = options.passes[i];
    if (pass.layout == Layout::kPacked && pass.rows == RowPadding::kLongest) {
      return absl::InvalidArgumentError(absl::StrCat(
          "overlong is OVERLONG_POLICY_ALONE, but passes[", i,
          "].packed.rows is ROW_PADDING_LONGEST, as the preset nemo_rl_packing has it for "
          "pipelines: rows would be as wide as one above max_tokens_per_microbatch ",
          pass.max_tokens_per_microbatch, "; use other rows"));
    }
    if (SharesWidths(pass, options.passes[0].sharding)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "overlong is OVERLONG_POLICY_ALONE, but passes[", i,
          "].padded.scan is SCAN_SORTED under SHARDING_STRIDE_SORTED, as the presets "
          "nemo_rl_dynamic and roll_dynamic have it: ranks share widths, and would share one above "
          "max_tokens_per_microbatch ",
          pass.max_tokens_per_microbatch, "; use SCAN_OPTIMAL or another sharding"));
    }
  }
  return absl::OkStatus();
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

absl::Status CheckStageShares(const std::vector<double>& shares, uint32_t stages) {
  if (shares.empty()) return absl::OkStatus();
  if (shares.size() != stages) {
    return absl::InvalidArgumentError(
        absl::StrCat("pipeline.stage_shares has ", shares.size(), " entries; there are ", stages,
                     " virtual stages, pipeline_parallel * virtual_pipeline, or leave them out"));
  }
  double sum = 0;
  for (size_t i = 0; i < shares.size(); ++i) {
    if (!(shares[i] >= 0 && shares[i] <= kMaxCoefficient)) {
      return absl::InvalidArgumentError(absl::StrCat("pipeline.stage_shares[", i, "] is ",
                                                     shares[i], "; it must be between 0 and ",
                                                     kMaxCoefficient));
    }
    sum += shares[i];
  }
  if (sum >= kMinCoefficient) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("pipeline.stage_shares add up to ", sum,
                                                 "; it must be at least ", kMinCoefficient));
}

absl::Status CheckPipeline(const Topology& topology, const PipelineOptions& pipeline) {
  if (topology.pipeline_parallel == 1) return absl::OkStatus();
  const uint64_t stages = uint64_t{topology.pipeline_parallel} * topology.virtual_pipeline;
  if (stages > kMaxVirtualStages) {
    return absl::InvalidArgumentError(
        absl::StrCat("topology.pipeline_parallel ", topology.pipeline_parallel,
                     " times virtual_pipeline ", topology.virtual_pipeline, " is ", stages,
                     " virtual stages; the limit is ", kMaxVirtualStages));
  }
  const bool interleaved = topology.virtual_pipeline > 1;
  if (pipeline.schedule && (*pipeline.schedule == PipelineSchedule::kInterleaved) != interleaved) {
    return absl::InvalidArgumentError(absl::StrCat(
        "pipeline.schedule is PIPELINE_SCHEDULE_", interleaved ? "ONE_F_ONE_B" : "INTERLEAVED",
        ", but topology.virtual_pipeline is ", topology.virtual_pipeline, "; it must be ",
        interleaved ? "1" : "above 1", ", or leave the schedule unset"));
  }
  if (pipeline.group_size > 0 && !interleaved) {
    return absl::InvalidArgumentError(
        absl::StrCat("pipeline.group_size is ", pipeline.group_size,
                     ", but topology.virtual_pipeline is 1: only the interleaved schedule has "
                     "groups; leave it unset"));
  }
  if (pipeline.group_size > 0 && (pipeline.group_size < topology.pipeline_parallel ||
                                  pipeline.group_size > kMaxParallelSize)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "pipeline.group_size is ", pipeline.group_size, "; it must be between pipeline_parallel ",
        topology.pipeline_parallel, " and ", kMaxParallelSize, ", or 0 for the former"));
  }
  if (!(pipeline.backward_ratio >= kMinBackwardRatio &&
        pipeline.backward_ratio <= kMaxBackwardRatio)) {
    return absl::InvalidArgumentError(absl::StrCat("pipeline.backward_ratio is ",
                                                   pipeline.backward_ratio, "; it must be between ",
                                                   kMinBackwardRatio, " and ", kMaxBackwardRatio));
  }
  if (!(pipeline.transfer >= 0 && pipeline.transfer <= kMaxCoefficient)) {
    return absl::InvalidArgumentError(absl::StrCat("pipeline.transfer is ", pipeline.transfer,
                                                   "; it must be between 0 and ", kMaxCoefficient));
  }
  return CheckStageShares(pipeline.stage_shares, static_cast<uint32_t>(stages));
}

absl::Status CheckExchange(const std::vector<ContextExchange>& exchange) {
  if (exchange.size() > kMaxExchanges) {
    return absl::InvalidArgumentError(absl::StrCat("cost_model.exchange has ", exchange.size(),
                                                   " entries; the limit is ", kMaxExchanges));
  }
  for (size_t i = 0; i < exchange.size(); ++i) {
    const std::string name = absl::StrCat("exchange[", i, "].");
    if (absl::Status status =
            CheckCoefficient(absl::StrCat(name, "per_token"), exchange[i].per_token);
        !status.ok()) {
      return status;
    }
    if (exchange[i].up_to_size == 0 && i + 1 < exchange.size()) {
      return absl::InvalidArgumentError(
          absl::StrCat("cost_model.", name, "up_to_size is 0, all larger sizes, but exchange[",
                       i + 1, "] follows; only the last may be 0"));
    }
    if (i > 0 && exchange[i].up_to_size > 0 &&
        exchange[i].up_to_size <= exchange[i - 1].up_to_size) {
      return absl::InvalidArgumentError(absl::StrCat(
          "cost_model.", name, "up_to_size is ", exchange[i].up_to_size, ", but that of exchange[",
          i - 1, "] is ", exchange[i - 1].up_to_size, "; sizes ascend"));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckCostModel(const CostModel& model) {
  if (absl::Status status = CheckExchange(model.exchange); !status.ok()) return status;
  const struct {
    absl::string_view name;
    double value;
  } coefficients[] = {{"per_token", model.per_token},
                      {"per_token_squared", model.per_token_squared},
                      {"per_microbatch", model.per_microbatch},
                      {"per_sequence", model.per_sequence}};
  bool any = false;
  for (const auto& [name, value] : coefficients) {
    if (absl::Status status = CheckCoefficient(name, value); !status.ok()) return status;
    any = any || value > 0;
  }
  for (size_t i = 0; i < model.loads.size(); ++i) {
    const double value = model.loads[i].per_unit;
    absl::Status status = CheckCoefficient(absl::StrCat("loads[", i, "].per_unit"), value);
    if (!status.ok()) return status;
    any = any || value > 0;
  }
  if (any) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "cost_model has per_token, per_token_squared, per_microbatch and per_sequence all 0, and "
      "costs "
      "no load; at least one must be above 0, or leave cost_model unset for the default");
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

absl::Status CheckPasses(const std::vector<PassOptions>& passes, GroupPolicy groups) {
  if (passes.empty()) return absl::InvalidArgumentError("passes is empty; at least one is needed");
  if (passes.size() > kMaxPasses) {
    return absl::InvalidArgumentError(
        absl::StrCat("passes has ", passes.size(), " entries; the limit is ", kMaxPasses));
  }
  std::set<absl::string_view> names;
  for (size_t i = 0; i < passes.size(); ++i) {
    const std::string where = absl::StrCat("passes[", i, "]");
    if (!names.insert(passes[i].name).second) {
      return absl::InvalidArgumentError(
          absl::StrCat(where, ".name is \"", absl::Utf8SafeCEscape(passes[i].name),
                       "\", which an earlier pass has; names are unique"));
    }
    if (absl::Status status = CheckPass(passes[i], where); !status.ok()) return status;
  }
  return CheckSharding(passes.front(), groups);
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
  // One after the other, since the last ones look at what the first ones promise.
  if (absl::Status status = CheckTopology(topology); !status.ok()) return status;
  if (absl::Status status = CheckPipeline(topology, pipeline); !status.ok()) return status;
  if (absl::Status status = CheckCostModel(cost_model); !status.ok()) return status;
  if (absl::Status status = CheckMiniBatches(mini_batches); !status.ok()) return status;
  if (absl::Status status = CheckSelection(selection, mini_batches); !status.ok()) return status;
  if (absl::Status status = CheckPasses(passes, mini_batches.groups); !status.ok()) return status;
  if (absl::Status status = CheckAlone(*this); !status.ok()) return status;
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
