// Families and series of a registry, made as the catalog defines them.

#ifndef BATCHPLAN_SERVER_TELEMETRY_METRIC_FAMILIES_H_
#define BATCHPLAN_SERVER_TELEMETRY_METRIC_FAMILIES_H_

#include <prometheus/counter.h>
#include <prometheus/family.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>

#include "server/telemetry/metric_catalog.h"

namespace batchplan {

prometheus::Family<prometheus::Counter>* CounterFamily(const MetricDefinition& definition,
                                                       prometheus::Registry& registry);
prometheus::Family<prometheus::Gauge>* GaugeFamily(const MetricDefinition& definition,
                                                   prometheus::Registry& registry);
prometheus::Family<prometheus::Histogram>* HistogramFamily(const MetricDefinition& definition,
                                                           prometheus::Registry& registry);

prometheus::Histogram::BucketBoundaries BucketsOf(const MetricDefinition& definition);

// Of definitions without labels.
prometheus::Counter* AddCounter(const MetricDefinition& definition, prometheus::Registry& registry);
prometheus::Gauge* AddGauge(const MetricDefinition& definition, prometheus::Registry& registry);
prometheus::Histogram* AddHistogram(const MetricDefinition& definition,
                                    prometheus::Registry& registry);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_TELEMETRY_METRIC_FAMILIES_H_
