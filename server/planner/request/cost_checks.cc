#include "server/planner/request/cost_checks.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace batchplan {
namespace {

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

absl::Status CheckCoefficient(absl::string_view name, double value) {
  // NaN fails both comparisons.
  if (value == 0 || (value >= kMinCoefficient && value <= kMaxCoefficient)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("cost_model.", name, " is ", value,
                                                 "; it must be 0, or between ", kMinCoefficient,
                                                 " and ", kMaxCoefficient));
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

}  // namespace

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

}  // namespace batchplan
