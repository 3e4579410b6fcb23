// The HTTP endpoint for Prometheus, probes and people who watch a server.
//
//   absl::StatusOr<std::unique_ptr<HttpEndpoint>> endpoint = HttpEndpoint::Start(
//       "127.0.0.1:9464", {.metrics = metrics.collectable(), .ready = [&] { return ready; }});
//
//   GET /metrics   all series, in Prometheus' text format
//   GET /healthz   200 while the process runs
//   GET /readyz    200 while `ready` is true, else 503
//   GET /PAGE      a page of the content's, in HTML
//
// HEAD works too; other paths get 404, other methods 405. Plain text without authentication: meant
// for the inside of a cluster. Serves on its own thread (http_server.h) until destroyed; slow
// clients delay nobody.

#ifndef BATCHPLAN_SERVER_TELEMETRY_HTTP_ENDPOINT_H_
#define BATCHPLAN_SERVER_TELEMETRY_HTTP_ENDPOINT_H_

#include <prometheus/collectable.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/telemetry/http_server.h"

namespace batchplan {

struct HttpPage {
  // With the leading slash.
  std::string path;
  // The name of the only parameter that the page knows.
  std::string parameter;
  // Makes the page's HTML for the parameter's value, if the query has one. NotFound becomes a 404,
  // any other error a 500.
  std::function<absl::StatusOr<std::string>(const std::optional<std::string>& value)> render;
};

// What is served. Its functions are called on the endpoint's thread.
struct HttpContent {
  std::shared_ptr<prometheus::Collectable> metrics;
  std::function<bool()> ready;
  std::vector<HttpPage> pages = {};
};

class HttpEndpoint {
 public:
  // Listens on `address`, HOST:PORT; port 0 means any free port. FailedPrecondition if the address
  // is in use or can't be listened on.
  static absl::StatusOr<std::unique_ptr<HttpEndpoint>> Start(const std::string& address,
                                                             HttpContent content);

  HttpEndpoint(const HttpEndpoint&) = delete;
  HttpEndpoint& operator=(const HttpEndpoint&) = delete;

  // The port that is listened on.
  int port() const { return server_->port(); }

 private:
  explicit HttpEndpoint(HttpContent content);

  HttpAnswer AnswerTo(const ReceivedRequest& request) const;

  const HttpContent content_;
  // All paths served, for error pages.
  std::string paths_;
  // The last member, so that it ends before what it serves.
  std::unique_ptr<HttpServer> server_;
};

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_TELEMETRY_HTTP_ENDPOINT_H_
