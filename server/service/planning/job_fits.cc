#include "server/service/planning/job_fits.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "proto/batchplan/v1/convert.h"
#include "server/telemetry/log.h"

namespace batchplan {
namespace {

absl::Status CheckNamesJob(const std::string& job_id) {
  if (!job_id.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError("job_id is empty; a fitted cost model is a job's");
}

absl::StatusOr<JobFit> Parse(const std::string& job_id, const std::string& state) {
  absl::StatusOr<JobFit> fit = ParseFit(state);
  if (fit.ok()) return fit;
  const std::string message(fit.status().message());
  if (absl::IsDataLoss(fit.status())) {
    // The fit starts anew: reports will come again, while an error would block the job for ever.
    Log(Severity::kError, "fit_state_damaged", {{"job", job_id}, {"error", message}});
    return JobFit();
  }
  return absl::FailedPreconditionError(
      absl::StrCat("job \"", absl::CEscape(job_id), "\": ", message,
                   "; use the replicas of the version that wrote it, or another job_id"));
}

v1::CostModel WireCosts(const JobFit& fit, const FittedCosts& costs) {
  v1::CostModel model;
  model.set_per_token(costs.per_token);
  model.set_per_token_squared(costs.per_token_squared);
  model.set_per_microbatch(costs.per_microbatch);
  model.set_per_sequence(costs.per_sequence);
  for (size_t i = 0; i < costs.per_unit.size(); ++i) {
    v1::LoadCost* load = model.add_loads();
    load->set_load(fit.costs.load_names[i]);
    load->set_per_unit(costs.per_unit[i]);
  }
  // A size without a certain exchange has an exchange of 0. Sizes larger than all those known get
  // the last certain one.
  double certain = 0;
  for (const SizeExchange& size : costs.exchange) {
    v1::Exchange* entry = model.add_exchange();
    entry->set_up_to_size(static_cast<uint32_t>(size.ranks));
    entry->set_per_token(size.per_token);
    if (size.per_token > 0) certain = size.per_token;
  }
  if (costs.exchange.empty()) return model;
  if (costs.exchange.back().per_token == certain) {
    model.mutable_exchange()->rbegin()->set_up_to_size(0);
  } else {
    model.add_exchange()->set_per_token(certain);
  }
  return model;
}

// Whether the planner accepts costs of loads. True if the request is invalid, which the planner
// will report.
bool TakesLoadCosts(const v1::PlanBatchRequest& request) {
  const absl::StatusOr<ParsedRequest> parsed = ParseRequestWithoutCosts(request);
  if (!parsed.ok()) return true;
  const auto is_packed = [](const PassOptions& pass) { return pass.layout == Layout::kPacked; };
  return !parsed->options.topology.dynamic_context &&
         std::ranges::all_of(parsed->options.passes, is_packed);
}

// Sets the fitted costs of the loads that the request gives costs, in its order. Then adds other
// loads of its manifest that have a fitted cost, if the planner accepts costs of loads.
void SetPlannedLoads(const v1::PlanBatchRequest& request, v1::CostModel& model) {
  google::protobuf::RepeatedPtrField<v1::LoadCost> fitted;
  fitted.Swap(model.mutable_loads());
  const auto find = [](auto& loads, const std::string& name) {
    return std::ranges::find(loads, name, [](const auto& load) { return load.load(); });
  };
  *model.mutable_loads() = request.cost_model().loads();
  for (v1::LoadCost& own : *model.mutable_loads()) {
    const auto found = find(fitted, own.load());
    if (found != fitted.end()) own.set_per_unit(found->per_unit());
  }
  for (v1::LoadCost& load : fitted) {
    const auto has_name = [&](const v1::Load& own) { return own.name() == load.load(); };
    if (load.per_unit() == 0 || std::ranges::none_of(request.manifest().loads(), has_name))
      continue;
    if (find(request.cost_model().loads(), load.load()) != request.cost_model().loads().end())
      continue;
    if (!TakesLoadCosts(request)) return;
    *model.add_loads() = std::move(load);
  }
}

// Whether any coefficient is above 0.
bool HasCosts(const v1::CostModel& model) {
  const auto costs = [](const v1::LoadCost& load) { return load.per_unit() > 0; };
  return model.per_token() > 0 || model.per_token_squared() > 0 || model.per_microbatch() > 0 ||
         model.per_sequence() > 0 || std::ranges::any_of(model.loads(), costs);
}

ReportedMicrobatch ReadTiming(const v1::MicrobatchTiming& timing) {
  ReportedMicrobatch microbatch = {.tokens = timing.tokens(),
                                   .tokens_squared = timing.tokens_squared(),
                                   .milliseconds = timing.milliseconds(),
                                   .peak_bytes = timing.peak_bytes(),
                                   .sequences = timing.sequences(),
                                   .mini_batch = timing.mini_batch(),
                                   .context_parallel = std::max(1U, timing.context_parallel()),
                                   .loads = {timing.loads().begin(), timing.loads().end()}};
  if (timing.model_share() != 0) microbatch.model_share = timing.model_share();
  if (timing.has_rank()) microbatch.rank = timing.rank();
  if (timing.has_slot()) microbatch.slot = timing.slot();
  return microbatch;
}

absl::StatusOr<StepReport> ReadReport(const v1::ReportStepRequest& request) {
  const absl::StatusOr<Synchronization> synchronization =
      ParseSynchronization(request.synchronization());
  if (!synchronization.ok()) return synchronization.status();
  StepReport report = {.step = request.step(),
                       .microbatches = {},
                       .predicted_milliseconds = request.predicted_step_time(),
                       .accumulated = *synchronization == Synchronization::kAccumulated,
                       .data_parallel = request.data_parallel(),
                       .loads = {request.loads().begin(), request.loads().end()}};
  report.microbatches.reserve(static_cast<size_t>(request.microbatches_size()));
  for (const v1::MicrobatchTiming& timing : request.microbatches()) {
    report.microbatches.push_back(ReadTiming(timing));
  }
  absl::Status valid = report.Validate();
  if (!valid.ok()) return valid;
  return report;
}

}  // namespace

absl::StatusOr<JobFit> JobFits::Get(const std::string& job_id) {
  absl::Status valid = CheckNamesJob(job_id);
  if (!valid.ok()) return valid;
  const absl::StatusOr<StoredFit> stored = store_->Get(job_id);
  if (!stored.ok()) return stored.status();
  return Parse(job_id, stored->state);
}

absl::StatusOr<CountedReport> JobFits::Add(const std::string& job_id, const StepReport& report,
                                           const std::string& owner) {
  absl::Status valid = CheckNamesJob(job_id);
  if (!valid.ok()) return valid;
  for (int attempt = 0; attempt < kMaxAttempts; ++attempt) {
    const absl::StatusOr<StoredFit> stored = store_->Get(job_id);
    if (!stored.ok()) return stored.status();
    absl::StatusOr<JobFit> fit = Parse(job_id, stored->state);
    if (!fit.ok()) return fit.status();
    CountedReport result = {.fit = *std::move(fit)};
    result.counted = AddReport(report, result.fit);
    if (!result.counted) return result;
    const absl::StatusOr<bool> replaced =
        store_->Replace(job_id, stored->version, SerializeFit(result.fit), owner);
    if (!replaced.ok()) return replaced.status();
    if (*replaced) return result;
  }
  return absl::UnavailableError(absl::StrCat("other replicas replaced the fit of job \"",
                                             absl::CEscape(job_id), "\" ", kMaxAttempts,
                                             " times in a row; send the report again"));
}

absl::StatusOr<v1::CostModel> FittedCostModel(JobFits* fits, const v1::PlanBatchRequest& request) {
  absl::Status alone = CheckFittedStandsAlone(request.cost_model());
  if (!alone.ok()) return alone;
  const absl::StatusOr<JobFit> fit = fits->Get(request.job_id());
  if (!fit.ok()) return fit.status();
  const std::optional<FittedCosts> costs = Costs(fit->costs);
  if (!costs) {
    return absl::FailedPreconditionError(
        absl::StrCat("cost_model.fitted is set, but of job \"", absl::CEscape(request.job_id()),
                     "\" ", fit->costs.samples, " micro-batches were reported, and ", kMinSamples,
                     " are needed; send ReportStep, and plan with other costs until then"));
  }
  v1::CostModel model = WireCosts(*fit, *costs);
  SetPlannedLoads(request, model);
  if (!HasCosts(model)) {
    return absl::InvalidArgumentError(
        absl::StrCat("cost_model.fitted is set, but of job \"", absl::CEscape(request.job_id()),
                     "\" nothing but loads was found to cost anything, and the plan has none of "
                     "these; give them "
                     "in manifest.loads, or plan with other costs"));
  }
  // Groups of a single size do not show what groups of other sizes exchange.
  if (request.topology().has_dynamic_context() && costs->context_sizes.size() == 1) {
    SetDefaultExchange(model.per_token(), &model);
  }
  return model;
}

absl::StatusOr<std::optional<MeasuredStep>> ReportStep(JobFits* fits, const std::string& owner,
                                                       const v1::ReportStepRequest& request,
                                                       v1::ReportStepResponse* response) {
  const absl::StatusOr<StepReport> report = ReadReport(request);
  if (!report.ok()) return report.status();

  const absl::StatusOr<CountedReport> result = fits->Add(request.job_id(), *report, owner);
  if (!result.ok()) return result.status();

  response->set_samples(result->fit.costs.samples);
  response->set_already_counted(!result->counted && !report->microbatches.empty());
  if (const std::optional<FittedCosts> costs = Costs(result->fit.costs)) {
    *response->mutable_fitted() = WireCosts(result->fit, *costs);
    for (const double size : costs->context_sizes) {
      response->add_context_sizes(static_cast<uint32_t>(size));
    }
    response->set_fit_error(costs->fit_error);
    response->set_outlier_share(costs->outlier_share);
  }
  if (request.memory_limit_bytes() > 0) {
    response->set_suggested_max_tokens_per_microbatch(
        SuggestTokens(result->fit.memory, request.memory_limit_bytes()));
  }
  return result->counted ? MeasureStep(*report) : std::nullopt;
}

}  // namespace batchplan
