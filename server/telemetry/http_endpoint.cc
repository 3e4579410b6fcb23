#include "server/telemetry/http_endpoint.h"

#include <civetweb.h>
#include <netdb.h>
#include <prometheus/text_serializer.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <future>
#include <mutex>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"

namespace batchplan {
namespace {

constexpr const char* kPlainText = "text/plain; charset=utf-8";
// The version that Prometheus asks for by name.
constexpr const char* kMetricsText = "text/plain; version=0.0.4; charset=utf-8";

void Send(mg_connection* connection, std::string_view status, std::string_view type,
          std::string_view body, bool head_only, std::string_view more_headers = "") {
  std::string answer;
  answer.append("HTTP/1.1 ").append(status).append("\r\n");
  answer.append("Content-Type: ").append(type).append("\r\n");
  absl::StrAppend(&answer, "Content-Length: ", body.size(), "\r\n");
  answer.append("Cache-Control: no-store\r\nConnection: close\r\n");
  answer.append(more_headers).append("\r\n");
  if (!head_only) answer.append(body);
  mg_write(connection, answer.data(), answer.size());
}

// Makes a connection to HOST:PORT, and drops it.
void Knock(const std::string& host, int port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (getaddrinfo(host.c_str(), absl::StrCat(port).c_str(), &hints, &found) != 0) return;
  const int knocker = socket(found->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (knocker >= 0) {
    (void)connect(knocker, found->ai_addr, found->ai_addrlen);
    close(knocker);
  }
  freeaddrinfo(found);
}

// The HOST of HOST:PORT, without the brackets of IPv6.
std::string HostOf(const std::string& address) {
  const std::string host = address.substr(0, address.rfind(':'));
  return host.starts_with('[') ? host.substr(1, host.size() - 2) : host;
}

// What civetweb would write to standard error.
int DropMessage(const mg_connection* /*connection*/, const char* /*message*/) { return 1; }

}  // namespace

absl::StatusOr<std::unique_ptr<HttpEndpoint>> HttpEndpoint::Start(
    const std::string& address, std::shared_ptr<prometheus::Registry> registry,
    std::function<bool()> ready) {
  static std::once_flag initialized;
  std::call_once(initialized, [] { mg_init_library(0); });

  const std::string threads = absl::StrCat(kHttpThreads);
  const std::string timeout = absl::StrCat(absl::ToInt64Milliseconds(kHttpTimeout));
  const std::string request_bytes = absl::StrCat(kMaxHttpRequestBytes);
  const std::array options = {"listening_ports",
                              address.c_str(),
                              "num_threads",
                              threads.c_str(),
                              "request_timeout_ms",
                              timeout.c_str(),
                              "max_request_size",
                              request_bytes.c_str(),
                              "enable_keep_alive",
                              "no",
                              "linger_timeout_ms",
                              "0",
                              static_cast<const char*>(nullptr)};
  mg_callbacks callbacks{};
  // Takes every request: civetweb itself serves nothing.
  callbacks.begin_request = &HttpEndpoint::Handle;
  callbacks.log_message = &DropMessage;
  std::unique_ptr<HttpEndpoint> endpoint(new HttpEndpoint(std::move(registry), std::move(ready)));
  endpoint->context_ =
      mg_start(&callbacks, endpoint.get(), const_cast<const char**>(options.data()));
  mg_server_port listener{};
  if (endpoint->context_ == nullptr || mg_get_server_ports(endpoint->context_, 1, &listener) != 1) {
    return absl::FailedPreconditionError(
        absl::StrCat("can't listen on ", address, ": address already in use or not valid"));
  }
  endpoint->host_ = HostOf(address);
  endpoint->port_ = listener.port;
  return endpoint;
}

HttpEndpoint::HttpEndpoint(std::shared_ptr<prometheus::Registry> registry,
                           std::function<bool()> ready)
    : registry_(std::move(registry)), ready_(std::move(ready)) {}

HttpEndpoint::~HttpEndpoint() {
  if (context_ == nullptr) return;
  // civetweb's listening thread sees that it is to stop only when a connection comes, or after
  // seconds.
  std::future<void> stopped = std::async(std::launch::async, [this] { mg_stop(context_); });
  while (stopped.wait_for(std::chrono::milliseconds(1)) != std::future_status::ready) {
    if (port_ > 0) Knock(host_, port_);
  }
}

int HttpEndpoint::Handle(mg_connection* connection) {
  const auto* endpoint =
      static_cast<const HttpEndpoint*>(mg_get_user_data(mg_get_context(connection)));
  endpoint->Answer(connection);
  return 200;  // answered; the number is for an access log, which there is none of
}

void HttpEndpoint::Answer(mg_connection* connection) const {
  const mg_request_info* request = mg_get_request_info(connection);
  const std::string_view method = request->request_method;
  const std::string_view path = request->local_uri != nullptr ? request->local_uri : "";
  const bool head_only = method == "HEAD";
  const bool known = path == "/metrics" || path == "/healthz" || path == "/readyz";
  if (!known) {
    Send(connection, "404 Not Found", kPlainText, "try /metrics, /healthz, /readyz\n", head_only);
  } else if (method != "GET" && !head_only) {
    Send(connection, "405 Method Not Allowed", kPlainText, "GET or HEAD\n", head_only,
         "Allow: GET, HEAD\r\n");
  } else if (path == "/metrics") {
    Send(connection, "200 OK", kMetricsText,
         prometheus::TextSerializer().Serialize(registry_->Collect()), head_only);
  } else if (path == "/healthz" || ready_()) {
    Send(connection, "200 OK", kPlainText, "ok\n", head_only);
  } else {
    Send(connection, "503 Service Unavailable", kPlainText, "not serving\n", head_only);
  }
}

}  // namespace batchplan
