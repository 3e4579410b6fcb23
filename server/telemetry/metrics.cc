#include "server/telemetry/metrics.h"

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "server/planner/request/presets.h"
#include "server/telemetry/metric_catalog.h"
#include "server/telemetry/process_metrics.h"

namespace batchplan {
namespace {

using prometheus::Registry;

// The values of labels. Any other name counts as the last one.
constexpr std::array kMethodNames = {"PlanBatch", "JoinBatch", "ReportStep", "other"};
constexpr auto kPresetLabels = [] {
  std::array<const char*, kPresetNames.size() + 2> labels = {};
  // The names are string literals, and so end with a 0.
  std::ranges::transform(kPresetNames, labels.begin(),
                         [](absl::string_view name) { return name.data(); });
  labels[kPresetNames.size()] = "unset";
  labels.back() = "other";
  return labels;
}();
constexpr std::array kRefusalNames = {"queue_full", "pushed_out", "deadline", "too_long", "unread"};
constexpr std::array kStoreOperationNames = {"put_part",    "progress",   "leave",       "parts",
                                             "put_outcome", "plan",       "mark_served", "restore",
                                             "get_fit",     "replace_fit"};

// Upper bounds of the classes of sequences in a plan; the last class has none.
constexpr std::array<uint64_t, 3> kSizeBounds = {256, 4096, 65536};
constexpr std::array kSizeNames = {"le_256", "le_4096", "le_65536", "larger"};

enum JoinOutcome { kJoined, kExpired, kCancelled, kRefused, kUnavailable, kFailed };
constexpr std::array kJoinOutcomeNames = {"joined",  "expired",     "cancelled",
                                          "refused", "unavailable", "failed"};

template <size_t kNames>
size_t PlaceOf(std::string_view name, const std::array<const char*, kNames>& names) {
  return static_cast<size_t>(std::find(names.begin(), names.end() - 1, name) - names.begin());
}

size_t PlaceOf(absl::StatusCode code, size_t codes) {
  const auto number = static_cast<size_t>(code);
  return number < codes ? number : static_cast<size_t>(absl::StatusCode::kUnknown);
}

JoinOutcome OutcomeOf(const absl::Status& answer) {
  switch (answer.code()) {
    case absl::StatusCode::kOk:
      return kJoined;
    case absl::StatusCode::kDeadlineExceeded:
      return kExpired;
    case absl::StatusCode::kCancelled:
      return kCancelled;
    case absl::StatusCode::kResourceExhausted:
      return kRefused;
    case absl::StatusCode::kUnavailable:
      return kUnavailable;
    default:
      return kFailed;
  }
}

// The series of the registry and of the process.
class Everything final : public prometheus::Collectable {
 public:
  explicit Everything(std::shared_ptr<Registry> registry) : registry_(std::move(registry)) {}

  std::vector<prometheus::MetricFamily> Collect() const override {
    std::vector<prometheus::MetricFamily> families = registry_->Collect();
    std::vector<prometheus::MetricFamily> of_process = process_.Collect();
    families.insert(families.end(), std::move_iterator(of_process.begin()),
                    std::move_iterator(of_process.end()));
    return families;
  }

 private:
  const std::shared_ptr<Registry> registry_;
  const ProcessMetrics process_;
};

}  // namespace

Metrics::Metrics(const std::string& version, const JobLabelOptions& job_labels)
    : registry_(std::make_shared<Registry>()),
      queue_depth_(AddGauge(metric::kQueueDepth, *registry_)),
      queue_sequences_(AddGauge(metric::kQueueSequences, *registry_)),
      queue_seconds_(AddHistogram(metric::kQueueSeconds, *registry_)),
      planning_seconds_(HistogramFamily(metric::kPlanningSeconds, *registry_)),
      sequences_(AddHistogram(metric::kSequences, *registry_)),
      microbatches_(AddCounter(metric::kMicrobatches, *registry_)),
      lower_bound_microbatches_(AddCounter(metric::kLowerBoundMicrobatches, *registry_)),
      true_tokens_(AddCounter(metric::kTrueTokens, *registry_)),
      laid_tokens_(AddCounter(metric::kLaidTokens, *registry_)),
      unique_tokens_(AddCounter(metric::kUniqueTokens, *registry_)),
      scheduled_tokens_(AddCounter(metric::kScheduledTokens, *registry_)),
      naive_tokens_(AddCounter(metric::kNaiveTokens, *registry_)),
      budget_tokens_(AddCounter(metric::kBudgetTokens, *registry_)),
      bin_utilization_(AddHistogram(metric::kBinUtilization, *registry_)),
      bin_spread_(AddHistogram(metric::kBinSpread, *registry_)),
      packing_efficiency_(AddHistogram(metric::kPackingEfficiency, *registry_)),
      padding_removed_(AddHistogram(metric::kPaddingRemoved, *registry_)),
      rank_cost_imbalance_(AddHistogram(metric::kRankCostImbalance, *registry_)),
      step_efficiency_(AddHistogram(metric::kStepEfficiency, *registry_)),
      step_time_over_bound_(AddHistogram(metric::kStepTimeOverBound, *registry_)),
      pipeline_bubble_(AddHistogram(metric::kPipelineBubble, *registry_)),
      context_groups_(CounterFamily(metric::kContextGroups, *registry_)),
      context_group_tokens_(CounterFamily(metric::kContextGroupTokens, *registry_)),
      mean_age_(AddHistogram(metric::kMeanAge, *registry_)),
      deferred_(AddCounter(metric::kDeferred, *registry_)),
      expired_(AddCounter(metric::kExpired, *registry_)),
      check_failures_(AddCounter(metric::kCheckFailures, *registry_)),
      cache_hits_(AddCounter(metric::kCacheHits, *registry_)),
      cache_misses_(AddCounter(metric::kCacheMisses, *registry_)),
      cache_plans_(AddGauge(metric::kCachePlans, *registry_)),
      cache_bytes_(AddGauge(metric::kCacheBytes, *registry_)),
      unsent_bytes_(AddGauge(metric::kUnsentBytes, *registry_)),
      jobs_(job_labels, *registry_),
      joins_waiting_(AddGauge(metric::kJoinsWaiting, *registry_)),
      joined_steps_(AddGauge(metric::kJoinedSteps, *registry_)),
      join_seconds_(AddHistogram(metric::kJoinSeconds, *registry_)),
      store_up_(AddGauge(metric::kStoreUp, *registry_)),
      accepting_(AddGauge(metric::kAccepting, *registry_)),
      memory_steps_(AddGauge(metric::kMemorySteps, *registry_)),
      memory_parts_(AddGauge(metric::kMemoryParts, *registry_)),
      memory_bytes_(AddGauge(metric::kMemoryBytes, *registry_)) {
  static_assert(kMethodNames.size() == kMethods && kPresetLabels.size() == kPresets &&
                kSizeNames.size() == kSizes && kRefusalNames.size() == kRefusals &&
                kJoinOutcomeNames.size() == kJoinOutcomes &&
                kStoreOperationNames.size() == kStoreOperations);
  GaugeFamily(metric::kBuildInfo, *registry_)->Add({{"version", version}}).Set(1);
  store_up_->Set(1);
  accepting_->Set(1);

  // All series begin at 0, so that an alert on a rate does not miss the first error.
  auto* requests = CounterFamily(metric::kRequests, *registry_);
  auto* seconds = HistogramFamily(metric::kRequestSeconds, *registry_);
  auto* in_flight = GaugeFamily(metric::kRequestsInFlight, *registry_);
  for (size_t method = 0; method < kMethods; ++method) {
    const std::string name = kMethodNames[method];
    MethodSeries& series = methods_[method];
    for (size_t code = 0; code < kCodes; ++code) {
      series.requests[code] =
          &requests->Add({{"method", name},
                          {"code", absl::StatusCodeToString(static_cast<absl::StatusCode>(code))}});
    }
    series.seconds = &seconds->Add({{"method", name}}, BucketsOf(metric::kRequestSeconds));
    series.in_flight = &in_flight->Add({{"method", name}});
  }
  auto* plans = CounterFamily(metric::kPlans, *registry_);
  for (size_t preset = 0; preset < kPresets; ++preset) {
    plans_[preset] = &plans->Add({{"preset", kPresetLabels[preset]}});
  }
  auto* refusals = CounterFamily(metric::kRefusals, *registry_);
  for (size_t reason = 0; reason < Metrics::kRefusals; ++reason) {
    refusals_[reason] = &refusals->Add({{"reason", kRefusalNames[reason]}});
  }
  auto* joins = CounterFamily(metric::kJoins, *registry_);
  for (size_t outcome = 0; outcome < kJoinOutcomes; ++outcome) {
    joins_[outcome] = &joins->Add({{"outcome", kJoinOutcomeNames[outcome]}});
  }
  auto* store_seconds = HistogramFamily(metric::kStoreSeconds, *registry_);
  auto* store_errors = CounterFamily(metric::kStoreErrors, *registry_);
  for (size_t operation = 0; operation < kStoreOperations; ++operation) {
    const std::string name = kStoreOperationNames[operation];
    store_calls_[operation] = {
        .seconds = &store_seconds->Add({{"operation", name}}, BucketsOf(metric::kStoreSeconds)),
        .errors = &store_errors->Add({{"operation", name}})};
  }
}

void Metrics::BeginCall(std::string_view method) {
  methods_[PlaceOf(method, kMethodNames)].in_flight->Increment();
}

void Metrics::EndCall(std::string_view method, absl::StatusCode code, double seconds) {
  const MethodSeries& series = methods_[PlaceOf(method, kMethodNames)];
  series.requests[PlaceOf(code, kCodes)]->Increment();
  series.seconds->Observe(seconds);
  series.in_flight->Decrement();
}

void Metrics::RecordTurnedAway(std::string_view method, absl::StatusCode code) {
  methods_[PlaceOf(method, kMethodNames)].requests[PlaceOf(code, kCodes)]->Increment();
}

prometheus::Histogram& Metrics::PlanningSeconds(size_t preset, uint64_t sequences) {
  const size_t size = static_cast<size_t>(
      std::lower_bound(kSizeBounds.begin(), kSizeBounds.end(), sequences) - kSizeBounds.begin());
  std::atomic<prometheus::Histogram*>& place = planning_seconds_of_[preset][size];
  prometheus::Histogram* histogram = place.load(std::memory_order_acquire);
  if (histogram == nullptr) {
    // If two threads add it at once, both get the same histogram.
    histogram =
        &planning_seconds_->Add({{"preset", kPresetLabels[preset]}, {"size", kSizeNames[size]}},
                                BucketsOf(metric::kPlanningSeconds));
    place.store(histogram, std::memory_order_release);
  }
  return *histogram;
}

void Metrics::RecordPlan(const PlanRecord& plan, absl::Time now) {
  const size_t preset = PlaceOf(plan.preset.empty() ? "unset" : plan.preset, kPresetLabels);
  plans_[preset]->Increment();
  sequences_->Observe(static_cast<double>(plan.sequences));
  PlanningSeconds(preset, plan.sequences).Observe(plan.planning_seconds);
  for (const PassRecord& pass : plan.passes) {
    microbatches_->Increment(static_cast<double>(pass.metrics.microbatches));
    lower_bound_microbatches_->Increment(
        static_cast<double>(pass.metrics.lower_bound_microbatches));
    true_tokens_->Increment(static_cast<double>(pass.metrics.true_tokens));
    laid_tokens_->Increment(static_cast<double>(pass.laid_tokens()));
    unique_tokens_->Increment(static_cast<double>(pass.unique_tokens()));
    scheduled_tokens_->Increment(static_cast<double>(pass.metrics.scheduled_tokens));
    naive_tokens_->Increment(static_cast<double>(pass.metrics.naive_tokens));
    budget_tokens_->Increment(static_cast<double>(pass.budget_tokens));
    bin_utilization_->Observe(pass.metrics.bin_utilization);
    bin_spread_->Observe(pass.bin_spread());
    packing_efficiency_->Observe(pass.metrics.packing_efficiency);
    padding_removed_->Observe(pass.padding_removed());
    rank_cost_imbalance_->Observe(pass.metrics.rank_cost_imbalance);
    step_efficiency_->Observe(pass.metrics.step_efficiency);
    step_time_over_bound_->Observe(pass.step_time_over_bound());
    if (pass.on_pipelines) pipeline_bubble_->Observe(pass.pipeline_bubble());
    RecordGroups(pass);
  }
  deferred_->Increment(static_cast<double>(plan.waiting.deferred));
  expired_->Increment(static_cast<double>(plan.waiting.expired));
  if (plan.waiting.mean_age) mean_age_->Observe(*plan.waiting.mean_age);
  jobs_.CountPlan(plan, now);
}

void Metrics::RecordGroups(const PassRecord& pass) {
  for (size_t place = 0; place < kContextSizes; ++place) {
    const GroupsRecord& size = pass.groups[place];
    if (size.groups == 0) continue;
    // Add returns an existing series if there is one.
    const prometheus::Labels labels = {{"context_parallel", ContextSizeLabel(place)}};
    context_groups_->Add(labels).Increment(static_cast<double>(size.groups));
    context_group_tokens_->Add(labels).Increment(static_cast<double>(size.tokens));
  }
}

void Metrics::RecordJobError(std::string_view job_id, absl::Time now) {
  jobs_.CountError(job_id, now);
}

void Metrics::RecordJobFit(std::string_view job_id, const FitRecord& fit, absl::Time now) {
  jobs_.ShowFit(job_id, fit, now);
}

void Metrics::RecordJobStep(std::string_view job_id, const StepRecord& step, absl::Time now) {
  jobs_.CountStep(job_id, step, now);
}

void Metrics::RecordCheckFailure() { check_failures_->Increment(); }

void Metrics::RecordQueue(uint64_t waiting, uint64_t sequences) {
  queue_depth_->Set(static_cast<double>(waiting));
  queue_sequences_->Set(static_cast<double>(sequences));
}

void Metrics::RecordQueueSeconds(double seconds) { queue_seconds_->Observe(seconds); }

void Metrics::RecordRefusal(Refusal reason) { refusals_[static_cast<size_t>(reason)]->Increment(); }

void Metrics::RecordCacheLookup(bool hit) { (hit ? cache_hits_ : cache_misses_)->Increment(); }

void Metrics::RecordUnsent(uint64_t bytes) { unsent_bytes_->Set(static_cast<double>(bytes)); }

void Metrics::RecordCacheSize(size_t plans, size_t bytes) {
  cache_plans_->Set(static_cast<double>(plans));
  cache_bytes_->Set(static_cast<double>(bytes));
}

void Metrics::RecordJoins(const JoinsRecord& joins) {
  joins_waiting_->Set(static_cast<double>(joins.waiting));
  joined_steps_->Set(static_cast<double>(joins.steps));
}

void Metrics::RecordJoin(const absl::Status& answer, double seconds) {
  joins_[OutcomeOf(answer)]->Increment();
  if (answer.ok()) join_seconds_->Observe(seconds);
}

void Metrics::RecordStore(const StoreRecord& store) {
  memory_steps_->Set(static_cast<double>(store.steps));
  memory_parts_->Set(static_cast<double>(store.parts));
  memory_bytes_->Set(static_cast<double>(store.bytes));
}

void Metrics::RecordStoreCall(StoreOperation operation, absl::StatusCode code, double seconds) {
  const StoreSeries& series = store_calls_[static_cast<size_t>(operation)];
  series.seconds->Observe(seconds);
  if (code != absl::StatusCode::kOk && code != absl::StatusCode::kNotFound) {
    series.errors->Increment();
  }
  store_up_->Set(code == absl::StatusCode::kUnavailable ? 0 : 1);
}

void Metrics::SetCertificateExpiry(absl::Time time) {
  // Registering again returns the existing family.
  AddGauge(metric::kCertificateExpiry, *registry_)
      ->Set(static_cast<double>(absl::ToUnixSeconds(time)));
}

void Metrics::SetAccepting(bool accepting) { accepting_->Set(accepting ? 1 : 0); }

std::shared_ptr<prometheus::Collectable> Metrics::collectable() const {
  return std::make_shared<Everything>(registry_);
}

}  // namespace batchplan
