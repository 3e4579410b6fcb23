#include "server/telemetry/metric_families.h"

namespace batchplan {

using prometheus::Counter;
using prometheus::Family;
using prometheus::Gauge;
using prometheus::Histogram;
using prometheus::Registry;

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
