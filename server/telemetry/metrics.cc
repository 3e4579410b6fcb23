#include "server/telemetry/metrics.h"

#include <cstddef>
#include <functional>

namespace batchplan {
namespace {

using prometheus::Histogram;
using prometheus::Registry;

// The label values of `preset`. A name from a request that isn't here is "other".
constexpr const char* kUnsetPreset = "unset";
constexpr const char* kOtherPreset = "other";
constexpr std::array kPresets = {
    "balanced",     "nemo_rl_packing", "nemo_rl_dynamic",
    "roll_packing", "roll_dynamic",    "mindspeed_rl",
    "verl",
};

prometheus::Counter* AddCounter(Registry& registry, const char* name, const char* help) {
  return &prometheus::BuildCounter().Name(name).Help(help).Register(registry).Add({});
}

Histogram* AddHistogram(Registry& registry, const char* name, const char* help,
                        const Histogram::BucketBoundaries& buckets) {
  return &prometheus::BuildHistogram().Name(name).Help(help).Register(registry).Add({}, buckets);
}

}  // namespace

Metrics::Metrics(const std::string& version, const JobLabelOptions& job_labels)
    : registry_(std::make_shared<Registry>()),
      job_labels_(job_labels, [this](const std::string& job) { RemoveSeries(job); }) {
  Registry& registry = *registry_;
  prometheus::BuildGauge()
      .Name("batchplan_build_info")
      .Help("Always 1; the label tells the version.")
      .Register(registry)
      .Add({{"version", version}})
      .Set(1);

  auto& plans = prometheus::BuildCounter()
                    .Name("batchplan_plans_total")
                    .Help("Plans made and answered, by preset.")
                    .Register(registry);
  for (const char* preset : kPresets) plans_[preset] = &plans.Add({{"preset", preset}});
  for (const char* preset : {kUnsetPreset, kOtherPreset}) {
    plans_[preset] = &plans.Add({{"preset", preset}});
  }

  // Every code from the start, at 0: an alert on a rate must not miss the first error.
  auto& errors = prometheus::BuildCounter()
                     .Name("batchplan_errors_total")
                     .Help("Calls answered with an error, by gRPC status code.")
                     .Register(registry);
  for (size_t code = 1; code < errors_.size(); ++code) {
    const std::string name = absl::StatusCodeToString(static_cast<absl::StatusCode>(code));
    errors_[code] = &errors.Add({{"code", name}});
  }

  microbatches_ = AddCounter(registry, "batchplan_microbatches_total", "Micro-batches planned.");
  true_tokens_ = AddCounter(registry, "batchplan_true_tokens_total",
                            "Tokens planned, as the callers' sequences have them.");
  scheduled_tokens_ =
      AddCounter(registry, "batchplan_scheduled_tokens_total", "Tokens planned, with all padding.");
  naive_tokens_ = AddCounter(registry, "batchplan_naive_tokens_total",
                             "Tokens that padding each batch to its longest would have taken.");
  check_failures_ = AddCounter(registry, "batchplan_plan_check_failures_total",
                               "Plans that the plan checker refused (--verify_plans).");
  queue_depth_ = &prometheus::BuildGauge()
                      .Name("batchplan_queue_depth")
                      .Help("Requests waiting for a planning thread.")
                      .Register(registry)
                      .Add({});
  planning_seconds_ = AddHistogram(registry, "batchplan_planning_seconds",
                                   "Time spent planning, without queue and transfer.",
                                   {0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025,
                                    0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10});
  sequences_ = AddHistogram(registry, "batchplan_sequences_per_plan", "Sequences of a plan.",
                            {16, 64, 256, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304});
  bin_utilization_ =
      AddHistogram(registry, "batchplan_bin_utilization",
                   "True tokens over the token budget of all micro-batches, of each pass.",
                   {0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95, 0.98, 0.99, 1});
  rank_cost_imbalance_ = AddHistogram(
      registry, "batchplan_rank_cost_imbalance",
      "Predicted cost of the most loaded data-parallel rank over the mean, of each pass.",
      {1, 1.001, 1.005, 1.01, 1.02, 1.05, 1.1, 1.2, 1.5, 2, 4});
  step_efficiency_ =
      AddHistogram(registry, "batchplan_step_efficiency",
                   "Ideal step time over the predicted one, of each pass.",
                   {0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95, 0.98, 0.99, 1});

  const auto job_family = [&registry](const char* name, const char* help) {
    return &prometheus::BuildCounter().Name(name).Help(help).Register(registry);
  };
  job_plans_ = job_family("batchplan_job_plans_total", "Plans made and answered, by job.");
  job_sequences_ = job_family("batchplan_job_sequences_total", "Sequences planned, by job.");
  job_errors_ = job_family("batchplan_job_errors_total", "Calls answered with an error, by job.");
}

void Metrics::RecordPlan(const PlanRecord& plan) {
  auto counter = plans_.find(plan.preset.empty() ? kUnsetPreset : plan.preset);
  if (counter == plans_.end()) counter = plans_.find(kOtherPreset);
  counter->second->Increment();
  sequences_->Observe(static_cast<double>(plan.sequences));
  planning_seconds_->Observe(plan.planning_seconds);
  microbatches_->Increment(static_cast<double>(plan.microbatches));
  true_tokens_->Increment(static_cast<double>(plan.true_tokens));
  scheduled_tokens_->Increment(static_cast<double>(plan.scheduled_tokens));
  naive_tokens_->Increment(static_cast<double>(plan.naive_tokens));
}

void Metrics::RecordPass(const PassRecord& pass) {
  bin_utilization_->Observe(pass.bin_utilization);
  rank_cost_imbalance_->Observe(pass.rank_cost_imbalance);
  step_efficiency_->Observe(pass.step_efficiency);
}

void Metrics::RecordError(absl::StatusCode code) {
  auto index = static_cast<size_t>(code);
  if (index == 0 || index >= errors_.size())
    index = static_cast<size_t>(absl::StatusCode::kUnknown);
  errors_[index]->Increment();
}

Metrics::JobSeries& Metrics::SeriesOf(std::string_view job_id, absl::Time now) {
  const std::string_view label = job_labels_.LabelOf(job_id, now);
  auto found = jobs_.find(label);
  if (found == jobs_.end()) {
    const std::string job(label);
    const JobSeries series = {.plans = &job_plans_->Add({{"job", job}}),
                              .sequences = &job_sequences_->Add({{"job", job}}),
                              .errors = &job_errors_->Add({{"job", job}})};
    found = jobs_.emplace(job, series).first;
  }
  return found->second;
}

void Metrics::RemoveSeries(const std::string& job) {
  const auto found = jobs_.find(job);
  if (found == jobs_.end()) return;
  job_plans_->Remove(found->second.plans);
  job_sequences_->Remove(found->second.sequences);
  job_errors_->Remove(found->second.errors);
  jobs_.erase(found);
}

void Metrics::RecordJobPlan(std::string_view job_id, uint64_t sequences, absl::Time now) {
  std::lock_guard lock(jobs_mutex_);
  JobSeries& series = SeriesOf(job_id, now);
  series.plans->Increment();
  series.sequences->Increment(static_cast<double>(sequences));
}

void Metrics::RecordJobError(std::string_view job_id, absl::Time now) {
  std::lock_guard lock(jobs_mutex_);
  SeriesOf(job_id, now).errors->Increment();
}

void Metrics::RecordCheckFailure() { check_failures_->Increment(); }

void Metrics::SetCertificateExpiry(absl::Time time) {
  // Registering again finds the one that is there.
  prometheus::BuildGauge()
      .Name("batchplan_tls_certificate_expiry_timestamp_seconds")
      .Help("When the certificate of --tls_certificate ends.")
      .Register(*registry_)
      .Add({})
      .Set(static_cast<double>(absl::ToUnixSeconds(time)));
}

void Metrics::RecordEnqueued() { queue_depth_->Increment(); }

void Metrics::RecordDequeued() { queue_depth_->Decrement(); }

}  // namespace batchplan
