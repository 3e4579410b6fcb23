#include "server/telemetry/job_metrics.h"

#include <map>
#include <utility>

#include "server/telemetry/metric_catalog.h"

namespace batchplan {

JobMetrics::JobMetrics(const JobLabelOptions& labels, prometheus::Registry& registry)
    : counters_{CounterFamily(metric::kJobPlans, registry),
                CounterFamily(metric::kJobErrors, registry),
                CounterFamily(metric::kJobSequences, registry),
                CounterFamily(metric::kJobTrueTokens, registry),
                CounterFamily(metric::kJobLaidTokens, registry),
                CounterFamily(metric::kJobUniqueTokens, registry),
                CounterFamily(metric::kJobScheduledTokens, registry),
                CounterFamily(metric::kJobNaiveTokens, registry),
                CounterFamily(metric::kJobBudgetTokens, registry),
                CounterFamily(metric::kJobMicrobatches, registry),
                CounterFamily(metric::kJobLowerBoundMicrobatches, registry)},
      means_{HistogramFamily(metric::kJobBinSpread, registry),
             HistogramFamily(metric::kJobPackingEfficiency, registry),
             HistogramFamily(metric::kJobRankCostImbalance, registry),
             HistogramFamily(metric::kJobStepEfficiency, registry),
             HistogramFamily(metric::kJobStepTimeOverBound, registry)},
      bubbles_(HistogramFamily(metric::kJobPipelineBubble, registry)),
      load_imbalances_(HistogramFamily(metric::kJobLoadImbalance, registry)),
      load_limit_uses_(HistogramFamily(metric::kJobLoadLimitUse, registry)),
      groups_(CounterFamily(metric::kJobContextGroups, registry)),
      group_tokens_(CounterFamily(metric::kJobContextGroupTokens, registry)),
      ages_(HistogramFamily(metric::kJobMeanAge, registry)),
      deferred_(CounterFamily(metric::kJobDeferred, registry)),
      expired_(CounterFamily(metric::kJobExpired, registry)),
      fitted_costs_(GaugeFamily(metric::kJobFittedCost, registry)),
      fitted_exchange_(GaugeFamily(metric::kJobFittedExchange, registry)),
      fitted_loads_(GaugeFamily(metric::kJobFittedLoad, registry)),
      fit_errors_(GaugeFamily(metric::kJobFitError, registry)),
      fit_samples_(GaugeFamily(metric::kJobFitSamples, registry)),
      steps_{HistogramFamily(metric::kJobMeasuredStep, registry),
             HistogramFamily(metric::kJobPredictedStep, registry),
             HistogramFamily(metric::kJobPredictionError, registry),
             HistogramFamily(metric::kJobWaited, registry)},
      labels_(labels, [this](const std::string& job) {
        mutex_.AssertHeld();
        RemoveSeries(job);
      }) {}

std::pair<const std::string, JobMetrics::Series>& JobMetrics::SeriesOf(std::string_view job_id,
                                                                       absl::Time now) {
  const std::string_view label = labels_.LabelOf(job_id, now);
  const auto found = jobs_.find(label);
  if (found != jobs_.end()) return *found;
  const std::string job(label);
  Series series;
  for (size_t i = 0; i < kCounters; ++i) series.counters[i] = &counters_[i]->Add({{"job_id", job}});
  for (size_t i = 0; i < kMeans; ++i) {
    series.means[i] = &means_[i]->Add({{"job_id", job}}, prometheus::Histogram::BucketBoundaries{});
  }
  return *jobs_.emplace(job, series).first;
}

void JobMetrics::RemoveSeries(const std::string& job) {
  const auto found = jobs_.find(job);
  if (found == jobs_.end()) return;
  const Series& series = found->second;
  for (size_t i = 0; i < kCounters; ++i) counters_[i]->Remove(series.counters[i]);
  for (size_t i = 0; i < kMeans; ++i) means_[i]->Remove(series.means[i]);
  if (series.bubble != nullptr) bubbles_->Remove(series.bubble);
  if (series.load_imbalance != nullptr) load_imbalances_->Remove(series.load_imbalance);
  if (series.load_limit_use != nullptr) load_limit_uses_->Remove(series.load_limit_use);
  for (const GroupSeries& size : series.groups) {
    if (size.groups == nullptr) continue;
    groups_->Remove(size.groups);
    group_tokens_->Remove(size.tokens);
  }
  if (series.age != nullptr) ages_->Remove(series.age);
  if (series.deferred != nullptr) {
    deferred_->Remove(series.deferred);
    expired_->Remove(series.expired);
  }
  if (series.fit.has_value()) {
    fitted_costs_->Remove(series.fit->per_token);
    fitted_costs_->Remove(series.fit->per_token_squared);
    fitted_costs_->Remove(series.fit->per_microbatch);
    fitted_costs_->Remove(series.fit->per_sequence);
    for (prometheus::Gauge* size : series.fit->exchange) {
      if (size != nullptr) fitted_exchange_->Remove(size);
    }
    for (const auto& load : series.fit->loads) fitted_loads_->Remove(load.second);
    fit_errors_->Remove(series.fit->error);
    fit_samples_->Remove(series.fit->samples);
  }
  if (series.steps.has_value()) {
    for (size_t i = 0; i < kStepMeans; ++i) steps_[i]->Remove((*series.steps)[i]);
  }
  jobs_.erase(found);
}

void JobMetrics::CountPlan(const PlanRecord& plan, absl::Time now) {
  MutexLock lock(mutex_);
  auto& [job, series] = SeriesOf(plan.job_id, now);
  const auto count = [&counters = series.counters](CounterPlace place, uint64_t number) {
    counters[place]->Increment(static_cast<double>(number));
  };
  count(kPlans, 1);
  count(kSequences, plan.sequences);
  CountWaiting(job, plan.waiting, series);
  for (const PassRecord& pass : plan.passes) {
    count(kTrueTokens, pass.metrics.true_tokens);
    count(kLaidTokens, pass.laid_tokens());
    count(kUniqueTokens, pass.unique_tokens());
    count(kScheduledTokens, pass.metrics.scheduled_tokens);
    count(kNaiveTokens, pass.metrics.naive_tokens);
    count(kBudgetTokens, pass.budget_tokens);
    count(kMicrobatches, pass.metrics.microbatches);
    count(kLowerBoundMicrobatches, pass.metrics.lower_bound_microbatches);
    series.means[kBinSpread]->Observe(pass.bin_spread());
    series.means[kPackingEfficiency]->Observe(pass.metrics.packing_efficiency);
    series.means[kRankCostImbalance]->Observe(pass.metrics.rank_cost_imbalance);
    series.means[kStepEfficiency]->Observe(pass.metrics.step_efficiency);
    series.means[kStepTimeOverBound]->Observe(pass.step_time_over_bound());
    CountGroups(job, pass, series);
    const auto observe = [&job = job](std::optional<double> value,
                                      prometheus::Family<prometheus::Histogram>* family,
                                      prometheus::Histogram*& own) {
      if (!value) return;
      if (own == nullptr) {
        own = &family->Add({{"job_id", job}}, prometheus::Histogram::BucketBoundaries{});
      }
      own->Observe(*value);
    };
    observe(pass.load_imbalance(), load_imbalances_, series.load_imbalance);
    observe(pass.load_limit_use, load_limit_uses_, series.load_limit_use);
    if (pass.on_pipelines) observe(pass.pipeline_bubble(), bubbles_, series.bubble);
  }
}

void JobMetrics::CountWaiting(const std::string& job, const WaitingRecord& waiting,
                              Series& series) {
  if (!waiting.any()) return;
  const prometheus::Labels labels = {{"job_id", job}};
  if (series.deferred == nullptr) {
    series.deferred = &deferred_->Add(labels);
    series.expired = &expired_->Add(labels);
  }
  series.deferred->Increment(static_cast<double>(waiting.deferred));
  series.expired->Increment(static_cast<double>(waiting.expired));
  if (!waiting.mean_age) return;
  if (series.age == nullptr) {
    series.age = &ages_->Add(labels, prometheus::Histogram::BucketBoundaries{});
  }
  series.age->Observe(*waiting.mean_age);
}

void JobMetrics::CountGroups(const std::string& job, const PassRecord& pass, Series& series) {
  for (size_t place = 0; place < kContextSizes; ++place) {
    const GroupsRecord& groups = pass.groups[place];
    if (groups.groups == 0) continue;
    GroupSeries& size = series.groups[place];
    if (size.groups == nullptr) {
      const prometheus::Labels labels = {{"job_id", job},
                                         {"context_parallel", ContextSizeLabel(place)}};
      size = {.groups = &groups_->Add(labels), .tokens = &group_tokens_->Add(labels)};
    }
    size.groups->Increment(static_cast<double>(groups.groups));
    size.tokens->Increment(static_cast<double>(groups.tokens));
  }
}

void JobMetrics::CountError(std::string_view job_id, absl::Time now) {
  MutexLock lock(mutex_);
  SeriesOf(job_id, now).second.counters[kErrors]->Increment();
}

void JobMetrics::ShowFit(std::string_view job_id, const FitRecord& fit, absl::Time now) {
  MutexLock lock(mutex_);
  auto& labelled = SeriesOf(job_id, now);
  const std::string& job = labelled.first;
  Series& series = labelled.second;
  // One label stands for many jobs, whose fits have nothing in common.
  if (job == kOtherJobs) return;
  if (!series.fit.has_value()) {
    const auto cost = [&](const char* coefficient) {
      return &fitted_costs_->Add({{"job_id", job}, {"coefficient", coefficient}});
    };
    series.fit = {.per_token = cost("per_token"),
                  .per_token_squared = cost("per_token_squared"),
                  .per_microbatch = cost("per_microbatch"),
                  .per_sequence = cost("per_sequence"),
                  .exchange = {},
                  .loads = {},
                  .error = &fit_errors_->Add({{"job_id", job}}),
                  .samples = &fit_samples_->Add({{"job_id", job}})};
  }
  series.fit->per_token->Set(fit.seconds_per_token);
  series.fit->per_token_squared->Set(fit.seconds_per_token_squared);
  series.fit->per_microbatch->Set(fit.seconds_per_microbatch);
  series.fit->per_sequence->Set(fit.seconds_per_sequence);
  ShowExchange(job, fit, *series.fit);
  ShowLoads(job, fit, *series.fit);
  series.fit->error->Set(fit.error_ratio);
  series.fit->samples->Set(static_cast<double>(fit.samples));
}

void JobMetrics::ShowExchange(const std::string& job, const FitRecord& fit, FitSeries& series) {
  for (size_t place = 0; place < kContextSizes; ++place) {
    const std::optional<double> seconds = fit.seconds_exchanged_per_token[place];
    prometheus::Gauge*& size = series.exchange[place];
    if (seconds.has_value()) {
      if (size == nullptr) {
        size = &fitted_exchange_->Add(
            {{"job_id", job}, {"context_parallel", ContextSizeLabel(place)}});
      }
      size->Set(*seconds);
    } else if (size != nullptr) {
      // A fit drops a size after no reports of it for long.
      fitted_exchange_->Remove(size);
      size = nullptr;
    }
  }
}

void JobMetrics::ShowLoads(const std::string& job, const FitRecord& fit, FitSeries& series) {
  std::erase_if(series.loads, [&](const auto& load) {
    if (fit.seconds_per_load_unit.contains(load.first)) return false;
    fitted_loads_->Remove(load.second);
    return true;
  });
  for (const auto& [name, seconds] : fit.seconds_per_load_unit) {
    prometheus::Gauge*& load = series.loads[name];
    if (load == nullptr) load = &fitted_loads_->Add({{"job_id", job}, {"load", name}});
    load->Set(seconds);
  }
}

void JobMetrics::CountStep(std::string_view job_id, const StepRecord& step, absl::Time now) {
  MutexLock lock(mutex_);
  auto& [job, series] = SeriesOf(job_id, now);
  if (!series.steps.has_value()) {
    StepSeries steps;
    for (size_t i = 0; i < kStepMeans; ++i) {
      steps[i] = &steps_[i]->Add({{"job_id", job}}, prometheus::Histogram::BucketBoundaries{});
    }
    series.steps = steps;
  }
  StepSeries& means = *series.steps;
  means[kMeasured]->Observe(step.measured_seconds);
  means[kWaited]->Observe(step.waited_ratio);
  if (step.predicted_seconds == 0) return;
  means[kPredicted]->Observe(step.predicted_seconds);
  means[kPredictionError]->Observe(step.prediction_error_ratio());
}

}  // namespace batchplan
