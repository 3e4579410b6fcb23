// The metrics that Prometheus' client libraries export for every process, read from /proc on
// collection.

#ifndef BATCHPLAN_SERVER_TELEMETRY_PROCESS_METRICS_H_
#define BATCHPLAN_SERVER_TELEMETRY_PROCESS_METRICS_H_

#include <prometheus/collectable.h>
#include <prometheus/metric_family.h>

#include <vector>

namespace batchplan {

class ProcessMetrics final : public prometheus::Collectable {
 public:
  // Thread-safe. Leaves out what can't be read.
  std::vector<prometheus::MetricFamily> Collect() const override;
};

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_TELEMETRY_PROCESS_METRICS_H_
