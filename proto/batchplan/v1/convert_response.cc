#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "google/protobuf/util/time_util.h"
#include "proto/batchplan/v1/convert.h"
#include "server/planner/make_plan.h"

namespace batchplan {
namespace {

using WireArray = google::protobuf::RepeatedField<uint32_t>;

void CopyArray(const std::vector<uint32_t>& values, WireArray* wire) {
  wire->Reserve(static_cast<int>(values.size()));
  wire->Add(values.begin(), values.end());
}

std::vector<uint32_t> ReadArray(const WireArray& wire) { return {wire.begin(), wire.end()}; }

void FillMetrics(const PlanMetrics& metrics, v1::PlanMetrics* wire) {
  wire->set_microbatches(metrics.microbatches);
  wire->set_lower_bound_microbatches(metrics.lower_bound_microbatches);
  wire->set_certified_optimal(metrics.certified_optimal);
  wire->set_true_tokens(metrics.true_tokens);
  wire->set_aligned_tokens(metrics.aligned_tokens);
  wire->set_scheduled_tokens(metrics.scheduled_tokens);
  wire->set_naive_tokens(metrics.naive_tokens);
  wire->set_bin_utilization(metrics.bin_utilization);
  wire->set_aligned_bin_utilization(metrics.aligned_bin_utilization);
  wire->set_waste_ratio(metrics.waste_ratio);
  wire->set_bin_balance(metrics.bin_balance);
  wire->set_packing_efficiency(metrics.packing_efficiency);
  wire->set_padding_removed(metrics.padding_removed);
  wire->set_rank_token_imbalance(metrics.rank_token_imbalance);
  wire->set_rank_cost_imbalance(metrics.rank_cost_imbalance);
  wire->set_ideal_step_time(metrics.ideal_step_time);
  wire->set_lower_bound_step_time(metrics.lower_bound_step_time);
  wire->set_predicted_step_time(metrics.predicted_step_time);
  wire->set_step_efficiency(metrics.step_efficiency);
  wire->set_pipeline_bubble(metrics.pipeline_bubble);
  wire->set_mean_delay(metrics.mean_delay);
  wire->set_moved_share(metrics.moved_share);
  wire->set_mean_length_taken(metrics.mean_length_taken);
  wire->set_mean_length_deferred(metrics.mean_length_deferred);
  wire->set_mean_age(metrics.mean_age);
  wire->set_largest_age(metrics.largest_age);
  wire->set_laid_tokens(metrics.laid_tokens);
  wire->set_unique_tokens(metrics.unique_tokens);
  for (const LoadMetrics& load : metrics.loads) {
    v1::LoadMetrics* entry = wire->add_loads();
    entry->set_load(load.load);
    entry->set_largest(load.largest);
    entry->set_mean(load.mean);
    entry->set_rank_imbalance(load.rank_imbalance);
    entry->set_separate_time(load.separate_time);
  }
}

void FillPass(const PassPlan& pass, v1::PassPlan* wire) {
  wire->set_name(pass.name);
  CopyArray(pass.sequence_index, wire->mutable_sequence_index());
  CopyArray(pass.microbatch_offsets, wire->mutable_microbatch_offsets());
  CopyArray(pass.microbatches_per_rank, wire->mutable_microbatches_per_rank());
  CopyArray(pass.row_widths, wire->mutable_row_widths());
  CopyArray(pass.sequence_lengths, wire->mutable_sequence_lengths());
  CopyArray(pass.context_sizes, wire->mutable_context_sizes());
  CopyArray(pass.shared_tokens, wire->mutable_shared_tokens());
  for (const LoadRanks& ranks : pass.item_ranks) {
    v1::LoadRanks* entry = wire->add_item_ranks();
    entry->set_load(ranks.load);
    CopyArray(ranks.ranks, entry->mutable_ranks());
  }
  wire->set_length_multiple(pass.length_multiple);
  FillMetrics(pass.metrics, wire->mutable_metrics());
  for (const MiniBatchDecision& decision : pass.decisions) {
    v1::MiniBatchDecision* entry = wire->add_decisions();
    entry->set_method(decision.method);
    entry->set_fewest_slots(decision.fewest_slots);
    for (const SlotsTried& tried : decision.tried) {
      v1::SlotsTried* slots = entry->add_tried();
      slots->set_slots(tried.slots);
      slots->set_step_time(tried.step_time);
    }
  }
}

std::vector<MiniBatchDecision> ReadDecisions(const v1::PassPlan& wire) {
  std::vector<MiniBatchDecision> decisions;
  decisions.reserve(static_cast<size_t>(wire.decisions_size()));
  for (const v1::MiniBatchDecision& entry : wire.decisions()) {
    MiniBatchDecision& decision = decisions.emplace_back();
    decision.method = entry.method();
    decision.fewest_slots = entry.fewest_slots();
    decision.tried.reserve(static_cast<size_t>(entry.tried_size()));
    for (const v1::SlotsTried& slots : entry.tried()) {
      decision.tried.push_back({.slots = slots.slots(), .step_time = slots.step_time()});
    }
  }
  return decisions;
}

std::vector<LoadMetrics> ReadLoadMetrics(const v1::PlanMetrics& wire) {
  std::vector<LoadMetrics> loads;
  loads.reserve(static_cast<size_t>(wire.loads_size()));
  for (const v1::LoadMetrics& entry : wire.loads()) {
    loads.push_back({.load = entry.load(),
                     .largest = entry.largest(),
                     .mean = entry.mean(),
                     .rank_imbalance = entry.rank_imbalance(),
                     .separate_time = entry.separate_time()});
  }
  return loads;
}

std::vector<LoadRanks> ReadItemRanks(const v1::PassPlan& wire) {
  std::vector<LoadRanks> loads;
  loads.reserve(static_cast<size_t>(wire.item_ranks_size()));
  for (const v1::LoadRanks& entry : wire.item_ranks()) {
    loads.push_back({.load = entry.load(), .ranks = ReadArray(entry.ranks())});
  }
  return loads;
}

PassPlan ReadPass(const v1::PassPlan& wire) {
  return {.name = wire.name(),
          .sequence_index = ReadArray(wire.sequence_index()),
          .microbatch_offsets = ReadArray(wire.microbatch_offsets()),
          .microbatches_per_rank = ReadArray(wire.microbatches_per_rank()),
          .row_widths = ReadArray(wire.row_widths()),
          .sequence_lengths = ReadArray(wire.sequence_lengths()),
          .length_multiple = wire.length_multiple(),
          .context_sizes = ReadArray(wire.context_sizes()),
          .metrics = ReadMetrics(wire.metrics()),
          .decisions = ReadDecisions(wire),
          .shared_tokens = ReadArray(wire.shared_tokens()),
          .item_ranks = ReadItemRanks(wire)};
}

}  // namespace

PlanMetrics ReadMetrics(const v1::PlanMetrics& wire) {
  return {.microbatches = wire.microbatches(),
          .lower_bound_microbatches = wire.lower_bound_microbatches(),
          .certified_optimal = wire.certified_optimal(),
          .true_tokens = wire.true_tokens(),
          .aligned_tokens = wire.aligned_tokens(),
          .scheduled_tokens = wire.scheduled_tokens(),
          .naive_tokens = wire.naive_tokens(),
          .bin_utilization = wire.bin_utilization(),
          .aligned_bin_utilization = wire.aligned_bin_utilization(),
          .waste_ratio = wire.waste_ratio(),
          .bin_balance = wire.bin_balance(),
          .packing_efficiency = wire.packing_efficiency(),
          .padding_removed = wire.padding_removed(),
          .rank_token_imbalance = wire.rank_token_imbalance(),
          .rank_cost_imbalance = wire.rank_cost_imbalance(),
          .ideal_step_time = wire.ideal_step_time(),
          .lower_bound_step_time = wire.lower_bound_step_time(),
          .predicted_step_time = wire.predicted_step_time(),
          .step_efficiency = wire.step_efficiency(),
          .pipeline_bubble = wire.pipeline_bubble(),
          .mean_delay = wire.mean_delay(),
          .moved_share = wire.moved_share(),
          .mean_length_taken = wire.mean_length_taken(),
          .mean_length_deferred = wire.mean_length_deferred(),
          .mean_age = wire.mean_age(),
          .largest_age = wire.largest_age(),
          .laid_tokens = wire.laid_tokens(),
          .unique_tokens = wire.unique_tokens(),
          .loads = ReadLoadMetrics(wire)};
}

void FillResponse(const Plan& plan, absl::Duration planning_time, v1::PlanBatchResponse* response) {
  for (const PassPlan& pass : plan.passes) FillPass(pass, response->add_passes());
  for (const ExcludedSequence& sequence : plan.excluded) {
    v1::ExcludedSequence* wire = response->add_excluded();
    wire->set_index(sequence.index);
    wire->set_length(sequence.length);
    wire->set_reason(static_cast<v1::ExclusionReason>(sequence.reason));
  }
  CopyArray(plan.deferred, response->mutable_deferred());
  response->set_fingerprint(plan.fingerprint);
  response->set_planner_version(std::string(PlannerVersion()));
  *response->mutable_planning_time() = google::protobuf::util::TimeUtil::NanosecondsToDuration(
      absl::ToInt64Nanoseconds(planning_time));
  v1::CostModel* cost_model = response->mutable_cost_model_used();
  cost_model->set_per_token(plan.cost_model_used.per_token);
  cost_model->set_per_token_squared(plan.cost_model_used.per_token_squared);
  cost_model->set_per_microbatch(plan.cost_model_used.per_microbatch);
  cost_model->set_per_sequence(plan.cost_model_used.per_sequence);
  for (const ContextExchange& exchange : plan.cost_model_used.exchange) {
    v1::Exchange* entry = cost_model->add_exchange();
    entry->set_up_to_size(exchange.up_to_size);
    entry->set_per_token(exchange.per_token);
  }
  cost_model->set_exchange_overlaps(plan.cost_model_used.exchange_overlaps);
  for (const LoadCost& load : plan.cost_model_used.loads) {
    v1::LoadCost* entry = cost_model->add_loads();
    entry->set_load(load.load);
    entry->set_per_unit(load.per_unit);
    entry->set_separate(load.separate);
    entry->set_dealt(load.dealt);
  }
}

absl::StatusOr<Plan> ParseResponse(const v1::PlanBatchResponse& response) {
  Plan plan;
  for (const v1::PassPlan& pass : response.passes()) plan.passes.push_back(ReadPass(pass));
  for (const v1::ExcludedSequence& sequence : response.excluded()) {
    if (sequence.reason() != v1::EXCLUSION_REASON_TRUNCATED &&
        sequence.reason() != v1::EXCLUSION_REASON_DROPPED &&
        sequence.reason() != v1::EXCLUSION_REASON_EXPIRED &&
        sequence.reason() != v1::EXCLUSION_REASON_ALONE) {
      return absl::InvalidArgumentError(
          absl::StrCat("excluded[", plan.excluded.size(), "].reason is ",
                       static_cast<int>(sequence.reason()), ", which is not known"));
    }
    plan.excluded.push_back({.index = sequence.index(),
                             .length = sequence.length(),
                             .reason = static_cast<ExclusionReason>(sequence.reason())});
  }
  plan.deferred = ReadArray(response.deferred());
  plan.fingerprint = response.fingerprint();
  plan.cost_model_used = {.per_token = response.cost_model_used().per_token(),
                          .per_token_squared = response.cost_model_used().per_token_squared(),
                          .per_microbatch = response.cost_model_used().per_microbatch(),
                          .per_sequence = response.cost_model_used().per_sequence(),
                          .exchange_overlaps = response.cost_model_used().exchange_overlaps()};
  for (const v1::Exchange& exchange : response.cost_model_used().exchange()) {
    plan.cost_model_used.exchange.push_back(
        {.up_to_size = exchange.up_to_size(), .per_token = exchange.per_token()});
  }
  plan.cost_model_used.loads = ReadLoadCosts(response.cost_model_used());
  return plan;
}

}  // namespace batchplan
