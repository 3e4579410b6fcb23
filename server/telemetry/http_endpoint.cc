#include "server/telemetry/http_endpoint.h"

#include <civetweb.h>
#include <netdb.h>
#include <prometheus/text_serializer.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <future>
#include <mutex>
#include <new>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"

namespace batchplan {
namespace {

constexpr const char* kPlainText = "text/plain; charset=utf-8";
// The version that Prometheus asks for by name.
constexpr const char* kMetricsText = "text/plain; version=0.0.4; charset=utf-8";

constexpr const char* kHtml = "text/html; charset=utf-8";

}  // namespace

struct HttpAnswer {
  std::string_view status;
  std::string_view type;
  std::string body;
  std::string_view more_headers = {};
};

namespace {

void Send(mg_connection* connection, const HttpAnswer& answer, bool head_only) {
  std::string head;
  head.append("HTTP/1.1 ").append(answer.status).append("\r\n");
  head.append("Content-Type: ").append(answer.type).append("\r\n");
  absl::StrAppend(&head, "Content-Length: ", answer.body.size(), "\r\n");
  head.append("Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n");
  head.append("Connection: close\r\n").append(answer.more_headers).append("\r\n");
  mg_write(connection, head.data(), head.size());
  if (!head_only) mg_write(connection, answer.body.data(), answer.body.size());
}

// An answer that takes no memory.
void SendFailure(mg_connection* connection, std::string_view why) {
  constexpr std::string_view kHead =
      "HTTP/1.1 500 Internal Server Error\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\n";
  mg_write(connection, kHead.data(), kHead.size());
  mg_write(connection, why.data(), why.size());
}

// The value of `parameter` in the request's query.
std::optional<std::string> QueryValue(const mg_request_info& request,
                                      const std::string& parameter) {
  if (request.query_string == nullptr) return std::nullopt;
  // As long as the request may be.
  std::string value(kMaxHttpRequestBytes, '\0');
  const int bytes = mg_get_var(request.query_string, std::strlen(request.query_string),
                               parameter.c_str(), value.data(), value.size());
  if (bytes < 0) return std::nullopt;
  value.resize(static_cast<size_t>(bytes));
  return value;
}

HttpAnswer AnswerWith(const HttpPage& page, const mg_request_info& request) {
  absl::StatusOr<std::string> html = page.render(QueryValue(request, page.parameter));
  if (html.ok()) return {"200 OK", kHtml, *std::move(html)};
  return {absl::IsNotFound(html.status()) ? "404 Not Found" : "500 Internal Server Error",
          kPlainText, absl::StrCat(html.status().message(), "\n")};
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

absl::StatusOr<std::unique_ptr<HttpEndpoint>> HttpEndpoint::Start(const std::string& address,
                                                                  HttpContent content) {
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
                              static_cast<const char*>(nullptr)};
  mg_callbacks callbacks{};
  // Takes every request: civetweb itself serves nothing.
  callbacks.begin_request = &HttpEndpoint::Handle;
  callbacks.log_message = &DropMessage;
  std::unique_ptr<HttpEndpoint> endpoint(new HttpEndpoint(std::move(content)));
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

HttpEndpoint::HttpEndpoint(HttpContent content)
    : content_(std::move(content)), paths_("/metrics, /healthz, /readyz") {
  for (const HttpPage& page : content_.pages) absl::StrAppend(&paths_, ", ", page.path);
}

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
  const mg_request_info* request = mg_get_request_info(connection);
  // civetweb is C: nothing may be thrown through it.
  try {
    Send(connection, endpoint->AnswerTo(*request),
         std::string_view(request->request_method) == "HEAD");
  } catch (const std::bad_alloc&) {
    SendFailure(connection, "out of memory\n");
  } catch (...) {
    SendFailure(connection, "unexpected exception\n");
  }
  return 200;  // answered; the number is for an access log, which there is none of
}

HttpAnswer HttpEndpoint::AnswerTo(const mg_request_info& request) const {
  const std::string_view method = request.request_method;
  const std::string_view path = request.local_uri != nullptr ? request.local_uri : "";
  const auto page = std::find_if(content_.pages.begin(), content_.pages.end(),
                                 [path](const HttpPage& page) { return page.path == path; });
  const bool is_page = page != content_.pages.end();
  if (!is_page && path != "/metrics" && path != "/healthz" && path != "/readyz") {
    return {"404 Not Found", kPlainText, absl::StrCat("try ", paths_, "\n")};
  }
  if (method != "GET" && method != "HEAD") {
    return {"405 Method Not Allowed", kPlainText, "GET or HEAD\n", "Allow: GET, HEAD\r\n"};
  }
  if (is_page) return AnswerWith(*page, request);
  if (path == "/metrics") {
    return {"200 OK", kMetricsText,
            prometheus::TextSerializer().Serialize(content_.metrics->Collect())};
  }
  if (path == "/healthz" || content_.ready()) return {"200 OK", kPlainText, "ok\n"};
  return {"503 Service Unavailable", kPlainText, "not serving\n"};
}

}  // namespace batchplan
