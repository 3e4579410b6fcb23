// What Prometheus' client libraries export of every process, read from /proc when it is collected.

#ifndef BATCHPLAN_SERVER_TELEMETRY_PROCESS_METRICS_H_
#define BATCHPLAN_SERVER_TELEMETRY_PROCESS_METRICS_H_

#include <prometheus/collectable.h>
#include <prometheus/metric_family.h>

#include <vector>

namespace batchplan {

class ProcessMetrics final : public prometheus::Collectable {
 public:
  // Thread-safe. What can't be read is left out.
  std::vector<prometheus::MetricFamily> Collect() const override;
};

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_TELEMETRY_PROCESS_METRICS_H_
