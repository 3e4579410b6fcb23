#include "server/explain/explanation.h"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <span>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "server/explain/plan_time.h"
#include "server/explain/planned_pass.h"
#include "server/explain/request_rules.h"
#include "server/explain/sentences.h"
#include "server/planner/request/context_sizes.h"
#include "server/planner/request/loads.h"
#include "server/planner/request/shared_prefixes.h"

namespace batchplan {
namespace {

using explain::PlannedPass;
using explain::PlanTime;
using explain::ProvenTime;
using explain::Request;

// What is below this part of the step is taken for the rounding of sums.
constexpr double kRounding = 1e-9;

absl::Status CheckEntries(absl::string_view array, size_t entries, size_t sequences) {
  if (entries == 0 || entries == sequences) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("manifest.", array, " has ", entries,
                                                 " entries, but manifest.lengths has ", sequences,
                                                 "; give one a sequence, or none"));
}

// That what the planner's classes take for granted is so.
absl::Status CheckRequest(const Manifest& manifest, const PlanOptions& options) {
  absl::Status status =
      CheckEntries("group_ids", manifest.group_ids.size(), manifest.lengths.size());
  status.Update(CheckEntries("ranks", manifest.ranks.size(), manifest.lengths.size()));
  status.Update(CheckSharedPrefixes(manifest));
  status.Update(CheckLoads(manifest, options));
  if (!status.ok()) return status;
  for (size_t i = 0; i < manifest.ranks.size(); ++i) {
    if (manifest.ranks[i] < options.topology.data_parallel) continue;
    return absl::InvalidArgumentError(absl::StrCat("manifest.ranks[", i, "] is ", manifest.ranks[i],
                                                   "; must be below topology.data_parallel ",
                                                   options.topology.data_parallel));
  }
  return options.Validate();
}

absl::StatusOr<std::unique_ptr<PlannedPass>> PassOf(const Request& request, size_t number,
                                                    const PassPlan& plan) {
  return PlannedPass::Create(request.manifest, request.options, number, plan,
                             request.mini_batches.slots.size());
}

// Divides the time beyond the ideal step among causes.
class Division {
 public:
  Division(const PlanTime& time, const PassPlan& plan, double stages)
      : plan_(plan), stages_(stages) {
    explanation_.predicted_step_time = plan.metrics.predicted_step_time;
    explanation_.ideal_step_time = plan.metrics.ideal_step_time;
    explanation_.lower_bound_step_time = plan.metrics.lower_bound_step_time;
    explanation_.aligning = time.aligning;
    explanation_.lone_sequences = time.lone_sequences;
    Add(Cause::kPadding, time.padding, /*in_any_plan=*/false);
    Add(Cause::kMoreSlots, time.more_slots, /*in_any_plan=*/false);
    Add(Cause::kRepeatedPrefixes, time.repeated, /*in_any_plan=*/false);
    Add(Cause::kExchange, time.beyond_ideal - time.repeated, /*in_any_plan=*/false);
    Add(Cause::kBubbles, time.bubbles, /*in_any_plan=*/false);
    Add(Cause::kStages, time.unequal_stages, /*in_any_plan=*/true);
    // Bounds know the work that sequences are wherever they stand.
    base_ = time.ideal + time.beyond_ideal;
    left_ = time.waiting;
  }

  // `first` is proven of the request as it is.
  void Begin(const ProvenTime& first) {
    first_ = first;
    now_ = Lifted(first, 0);
    // What the plan's sequences cost beyond the ideal step, another plan need not have.
    double& bound = explanation_.lower_bound_step_time;
    bound = std::min(std::max(bound, first.time / stages_), explanation_.predicted_step_time);
  }

  // What is proven without `rule`, beside those given up before.
  void GiveUp(Cause rule, const ProvenTime& proven, double per_microbatch) {
    if (rule == Cause::kMicrobatchCounts) {
      explanation_.required_microbatches =
          std::max(0.0, first_.slots - proven.slots) * per_microbatch / stages_;
    }
    To(rule, Lifted(proven, per_microbatch));
  }

  // What is proven, per rank; slots that a rule asks for are part of the ideal step, and without it
  // they are added again.
  double Lifted(const ProvenTime& proven, double per_microbatch) const {
    const double fewer = std::max(0.0, first_.slots - proven.slots);
    return std::max(base_, (proven.time + fewer * per_microbatch) / stages_);
  }

  // The bound falls to `least`.
  void To(Cause cause, double least) {
    least = std::clamp(least, base_, now_);
    const double time = std::min(left_, now_ - least);
    Add(cause, time, /*in_any_plan=*/true);
    left_ -= std::max(0.0, time);
    now_ = least;
  }

  // Once the budget is given up: `proven` of twice the budget.
  void SetTwiceTheBudget(double proven) {
    explanation_.with_twice_the_budget = std::max(0.0, proven - now_);
  }

  // In the same unit: of ranks that are no pipelines.
  double now() const { return now_; }
  double base() const { return base_; }

  Explanation End() {
    std::ranges::stable_sort(explanation_.causes, std::ranges::greater(), &ExplainedTime::time);
    Add(Cause::kUnexplained, left_, /*in_any_plan=*/false);
    return std::move(explanation_);
  }

 private:
  void Add(Cause cause, double time, bool in_any_plan) {
    if (time <= kRounding * plan_.metrics.predicted_step_time) return;
    explanation_.causes.push_back({.cause = cause, .time = time, .in_any_plan = in_any_plan});
  }

  const PassPlan& plan_;
  const double stages_;
  Explanation explanation_;
  double base_ = 0;
  double left_ = 0;
  ProvenTime first_;
  double now_ = 0;
};

absl::StatusOr<ProvenTime> WithTwiceTheBudget(Request request, size_t number,
                                              const PassPlan& plan) {
  PassOptions& pass = request.options.passes[number];
  // Far beyond any micro-batch it may stay as it is.
  pass.max_tokens_per_microbatch =
      std::max(pass.max_tokens_per_microbatch,
               2 * std::min(pass.max_tokens_per_microbatch, kMaxGroupTokens / 2));
  absl::StatusOr<std::unique_ptr<PlannedPass>> planned = PassOf(request, number, plan);
  if (!planned.ok()) return planned.status();
  return (*planned)->LeastTime(request.mini_batches);
}

absl::StatusOr<Explanation> ExplainPass(Request request, size_t number, const PassPlan& plan,
                                        explain::Circumstances& circumstances) {
  absl::StatusOr<std::unique_ptr<PlannedPass>> planned = PassOf(request, number, plan);
  if (!planned.ok()) return planned.status();
  Division division(TimeOf(**planned, request.mini_batches, plan), plan,
                    request.options.topology.pipeline_parallel);
  const double per_microbatch = request.options.cost_model.per_microbatch;
  if (request.options.topology.pipeline_parallel > 1) {
    GiveUpPipeline(request);
    planned = PassOf(request, number, plan);
    if (!planned.ok()) return planned.status();
  }
  division.Begin((*planned)->LeastTime(request.mini_batches));
  double twice = 0;
  for (const Cause rule : RulesOf(request, number)) {
    if (rule == Cause::kBudget) {
      const absl::StatusOr<ProvenTime> proven = WithTwiceTheBudget(request, number, plan);
      if (proven.ok()) twice = division.Lifted(*proven, per_microbatch);
    }
    GiveUp(rule, plan, request);
    absl::StatusOr<std::unique_ptr<PlannedPass>> without = PassOf(request, number, plan);
    // What one rule alone made possible, such as groups in one micro-batch: it can't be given up.
    if (!without.ok()) continue;
    planned = std::move(without);
    division.GiveUp(rule, (*planned)->LeastTime(request.mini_batches), per_microbatch);
    if (rule == Cause::kBudget) division.SetTwiceTheBudget(twice);
  }
  const PlannedPass::Longest longest = (*planned)->LongestOf(request.mini_batches.sequences.all());
  circumstances.longest = longest.sequence.value();
  division.To(
      Cause::kFewSequences,
      std::max(division.base(), longest.time / circumstances.options.topology.pipeline_parallel));
  division.To(Cause::kLongestSequence, division.base());
  return division.End();
}

}  // namespace

absl::string_view NameOf(Cause cause) {
  switch (cause) {
    case Cause::kLongestSequence:
      return "longest_sequence";
    case Cause::kFewSequences:
      return "few_sequences";
    case Cause::kBudget:
      return "budget";
    case Cause::kSequenceLimit:
      return "sequence_limit";
    case Cause::kMicrobatchCounts:
      return "microbatch_counts";
    case Cause::kSequenceMultiple:
      return "sequence_multiple";
    case Cause::kEqualCounts:
      return "equal_counts";
    case Cause::kMiniBatches:
      return "mini_batches";
    case Cause::kGroups:
      return "groups";
    case Cause::kGivenRanks:
      return "given_ranks";
    case Cause::kKinds:
      return "kinds";
    case Cause::kLoadLimits:
      return "load_limits";
    case Cause::kLoadPhases:
      return "load_phases";
    case Cause::kBubbles:
      return "bubbles";
    case Cause::kStages:
      return "stages";
    case Cause::kPadding:
      return "padding";
    case Cause::kExchange:
      return "exchange";
    case Cause::kRepeatedPrefixes:
      return "repeated_prefixes";
    case Cause::kMoreSlots:
      return "more_slots";
    case Cause::kUnexplained:
      return "unexplained";
  }
  return "";
}

absl::StatusOr<std::vector<Explanation>> Explain(const Manifest& manifest,
                                                 const PlanOptions& options, const Plan& plan) {
  if (absl::Status status = explain::CheckArrays(manifest, options, plan); !status.ok()) {
    return status;
  }
  // Costs are those that it was made with, which a request for fitted ones does not say.
  PlanOptions with_costs = options;
  with_costs.cost_model = plan.cost_model_used;
  if (absl::Status status = CheckRequest(manifest, with_costs); !status.ok()) return status;
  std::vector<Explanation> explanations;
  for (size_t i = 0; i < plan.passes.size(); ++i) {
    const PassPlan& pass = plan.passes[i];
    explain::Circumstances circumstances = {
        .manifest = manifest, .options = with_costs, .pass = options.passes[i], .plan = pass};
    Request request = {.manifest = manifest,
                       .options = with_costs,
                       .mini_batches = explain::MiniBatchesOf(options, pass)};
    absl::StatusOr<Explanation> explanation =
        ExplainPass(std::move(request), i, pass, circumstances);
    if (!explanation.ok()) return explanation.status();
    explanation->sentences = SentencesOf(*explanation, circumstances);
    explanations.push_back(*std::move(explanation));
  }
  return explanations;
}

}  // namespace batchplan
