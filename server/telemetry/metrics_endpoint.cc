#include "server/telemetry/metrics_endpoint.h"

#include <exception>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

namespace batchplan {

absl::StatusOr<std::unique_ptr<MetricsEndpoint>> MetricsEndpoint::Start(
    const std::string& address, std::shared_ptr<prometheus::Registry> registry) {
  std::unique_ptr<prometheus::Exposer> exposer;
  try {
    exposer = std::make_unique<prometheus::Exposer>(address);
  } catch (const std::exception&) {
    // The exception's text names neither address nor reason.
    return absl::FailedPreconditionError(
        absl::StrCat("can't listen on ", address, ": address already in use or not valid"));
  }
  const std::vector<int> ports = exposer->GetListeningPorts();
  if (ports.empty()) {
    return absl::FailedPreconditionError(absl::StrCat("can't listen on ", address));
  }
  exposer->RegisterCollectable(registry);
  return std::unique_ptr<MetricsEndpoint>(
      new MetricsEndpoint(std::move(exposer), std::move(registry), ports.front()));
}

MetricsEndpoint::MetricsEndpoint(std::unique_ptr<prometheus::Exposer> exposer,
                                 std::shared_ptr<prometheus::Registry> registry, int port)
    : registry_(std::move(registry)), exposer_(std::move(exposer)), port_(port) {}

}  // namespace batchplan
