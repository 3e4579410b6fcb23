// The HTTP endpoint that Prometheus scrapes: GET /metrics.
//
//   absl::StatusOr<std::unique_ptr<MetricsEndpoint>> endpoint =
//       MetricsEndpoint::Start("127.0.0.1:9464", metrics.registry());
//
// Serves on two threads of its own until it is destroyed.

#ifndef BATCHPLAN_SERVER_TELEMETRY_METRICS_ENDPOINT_H_
#define BATCHPLAN_SERVER_TELEMETRY_METRICS_ENDPOINT_H_

#include <prometheus/exposer.h>
#include <prometheus/registry.h>

#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace batchplan {

class MetricsEndpoint {
 public:
  // Listens on `address`, HOST:PORT; port 0 takes a free one. FailedPrecondition if the address is
  // taken or can't be listened on.
  static absl::StatusOr<std::unique_ptr<MetricsEndpoint>> Start(
      const std::string& address, std::shared_ptr<prometheus::Registry> registry);

  MetricsEndpoint(const MetricsEndpoint&) = delete;
  MetricsEndpoint& operator=(const MetricsEndpoint&) = delete;

  // The port that is listened on.
  int port() const { return port_; }

 private:
  MetricsEndpoint(std::unique_ptr<prometheus::Exposer> exposer,
                  std::shared_ptr<prometheus::Registry> registry, int port);

  // The exposer holds the registry weakly; this keeps it alive.
  std::shared_ptr<prometheus::Registry> registry_;
  std::unique_ptr<prometheus::Exposer> exposer_;
  int port_;
};

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_TELEMETRY_METRICS_ENDPOINT_H_
