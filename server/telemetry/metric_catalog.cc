#include "server/telemetry/metric_catalog.h"

#include "absl/strings/str_cat.h"

namespace batchplan {

using prometheus::Counter;
using prometheus::Family;
using prometheus::Gauge;
using prometheus::Histogram;
using prometheus::Registry;

namespace {

constexpr const MetricDefinition* kCatalog[] = {
    &metric::kBuildInfo,
    &metric::kRequests,
    &metric::kRequestSeconds,
    &metric::kRequestsInFlight,
    &metric::kRefusals,
    &metric::kUnsentBytes,
    &metric::kQueueDepth,
    &metric::kQueueSequences,
    &metric::kQueueSeconds,
    &metric::kPlans,
    &metric::kPlanningSeconds,
    &metric::kSequences,
    &metric::kMicrobatches,
    &metric::kLowerBoundMicrobatches,
    &metric::kTrueTokens,
    &metric::kLaidTokens,
    &metric::kUniqueTokens,
    &metric::kScheduledTokens,
    &metric::kNaiveTokens,
    &metric::kBudgetTokens,
    &metric::kBinUtilization,
    &metric::kBinSpread,
    &metric::kPackingEfficiency,
    &metric::kPaddingRemoved,
    &metric::kRankCostImbalance,
    &metric::kStepEfficiency,
    &metric::kStepTimeOverBound,
    &metric::kPipelineBubble,
    &metric::kContextGroups,
    &metric::kContextGroupTokens,
    &metric::kMeanAge,
    &metric::kDeferred,
    &metric::kExpired,
    &metric::kCheckFailures,
    &metric::kCacheHits,
    &metric::kCacheMisses,
    &metric::kCachePlans,
    &metric::kCacheBytes,
    &metric::kJobPlans,
    &metric::kJobErrors,
    &metric::kJobSequences,
    &metric::kJobTrueTokens,
    &metric::kJobLaidTokens,
    &metric::kJobUniqueTokens,
    &metric::kJobScheduledTokens,
    &metric::kJobNaiveTokens,
    &metric::kJobBudgetTokens,
    &metric::kJobMicrobatches,
    &metric::kJobLowerBoundMicrobatches,
    &metric::kJobBinSpread,
    &metric::kJobPackingEfficiency,
    &metric::kJobRankCostImbalance,
    &metric::kJobStepEfficiency,
    &metric::kJobStepTimeOverBound,
    &metric::kJobPipelineBubble,
    &metric::kJobLoadImbalance,
    &metric::kJobLoadLimitUse,
    &metric::kJobContextGroups,
    &metric::kJobContextGroupTokens,
    &metric::kJobMeanAge,
    &metric::kJobDeferred,
    &metric::kJobExpired,
    &metric::kJobFittedCost,
    &metric::kJobFittedExchange,
    &metric::kJobFittedLoad,
    &metric::kJobFitError,
    &metric::kJobFitSamples,
    &metric::kJobMeasuredStep,
    &metric::kJobPredictedStep,
    &metric::kJobPredictionError,
    &metric::kJobWaited,
    &metric::kJoinsWaiting,
    &metric::kJoinedSteps,
    &metric::kJoins,
    &metric::kJoinSeconds,
    &metric::kStoreSeconds,
    &metric::kStoreErrors,
    &metric::kStoreUp,
    &metric::kMemorySteps,
    &metric::kMemoryParts,
    &metric::kMemoryBytes,
    &metric::kCertificateExpiry,
    &metric::kAccepting,
    &metric::kLogLinesDropped,
    &metric::kCpuSeconds,
    &metric::kResidentMemory,
    &metric::kVirtualMemory,
    &metric::kOpenDescriptors,
    &metric::kMaxDescriptors,
    &metric::kThreads,
    &metric::kStartTime,
};

const char* Name(MetricType type) {
  switch (type) {
    case MetricType::kCounter:
      return "counter";
    case MetricType::kGauge:
      return "gauge";
    case MetricType::kHistogram:
      return "histogram";
  }
  return "";
}

}  // namespace

std::span<const MetricDefinition* const> MetricCatalog() { return kCatalog; }

std::string MetricTable() {
  std::string table = "| metric | type | labels | what it is |\n| --- | --- | --- | --- |\n";
  for (const MetricDefinition* definition : kCatalog) {
    absl::StrAppend(&table, "| `", definition->name, "` | ", Name(definition->type), " | ",
                    definition->labels, " | ", definition->help, " |\n");
  }
  return table;
}

Family<Counter>* CounterFamily(const MetricDefinition& definition, Registry& registry) {
  return &prometheus::BuildCounter().Name(definition.name).Help(definition.help).Register(registry);
}

Family<Gauge>* GaugeFamily(const MetricDefinition& definition, Registry& registry) {
  return &prometheus::BuildGauge().Name(definition.name).Help(definition.help).Register(registry);
}

Family<Histogram>* HistogramFamily(const MetricDefinition& definition, Registry& registry) {
  return &prometheus::BuildHistogram()
              .Name(definition.name)
              .Help(definition.help)
              .Register(registry);
}

Histogram::BucketBoundaries BucketsOf(const MetricDefinition& definition) {
  return {definition.buckets.begin(), definition.buckets.end()};
}

Counter* AddCounter(const MetricDefinition& definition, Registry& registry) {
  return &CounterFamily(definition, registry)->Add({});
}

Gauge* AddGauge(const MetricDefinition& definition, Registry& registry) {
  return &GaugeFamily(definition, registry)->Add({});
}

Histogram* AddHistogram(const MetricDefinition& definition, Registry& registry) {
  return &HistogramFamily(definition, registry)->Add({}, BucketsOf(definition));
}

}  // namespace batchplan
