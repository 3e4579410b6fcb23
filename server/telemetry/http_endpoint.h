// The HTTP endpoint for whoever watches a server: Prometheus and probes.
//
//   absl::StatusOr<std::unique_ptr<HttpEndpoint>> endpoint =
//       HttpEndpoint::Start("127.0.0.1:9464", metrics.registry(), [&] { return serving.load(); });
//
//   GET /metrics   all series, in Prometheus' text format
//   GET /healthz   200 while the process runs
//   GET /readyz    200 while `ready` is true, else 503
//
// HEAD too; other paths are 404, other methods 405. Plain text and without authentication: for the
// inside of a cluster. Serves on a fixed number of threads of its own, one connection each and one
// request a connection, until it is destroyed, which takes milliseconds. Whoever sends or reads
// slowly is cut off after kHttpTimeout, and requests are bounded in size, so that no client holds a
// thread for longer.

#ifndef BATCHPLAN_SERVER_TELEMETRY_HTTP_ENDPOINT_H_
#define BATCHPLAN_SERVER_TELEMETRY_HTTP_ENDPOINT_H_

#include <prometheus/registry.h>

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

struct mg_connection;
struct mg_context;

namespace batchplan {

inline constexpr absl::Duration kHttpTimeout = absl::Seconds(2);
inline constexpr int kHttpThreads = 32;
inline constexpr int kMaxHttpRequestBytes = 8 << 10;

class HttpEndpoint {
 public:
  // Listens on `address`, HOST:PORT; port 0 takes a free one. `ready` is called on the endpoint's
  // threads. FailedPrecondition if the address is taken or can't be listened on.
  static absl::StatusOr<std::unique_ptr<HttpEndpoint>> Start(
      const std::string& address, std::shared_ptr<prometheus::Registry> registry,
      std::function<bool()> ready);

  ~HttpEndpoint();

  HttpEndpoint(const HttpEndpoint&) = delete;
  HttpEndpoint& operator=(const HttpEndpoint&) = delete;

  // The port that is listened on.
  int port() const { return port_; }

 private:
  HttpEndpoint(std::shared_ptr<prometheus::Registry> registry, std::function<bool()> ready);

  static int Handle(mg_connection* connection);
  void Answer(mg_connection* connection) const;

  const std::shared_ptr<prometheus::Registry> registry_;
  const std::function<bool()> ready_;
  mg_context* context_ = nullptr;
  std::string host_;
  int port_ = 0;
};

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_TELEMETRY_HTTP_ENDPOINT_H_
