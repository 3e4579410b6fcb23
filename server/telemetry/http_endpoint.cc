#include "server/telemetry/http_endpoint.h"

#include <prometheus/text_serializer.h>

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace batchplan {
namespace {

constexpr const char* kPlainText = "text/plain; charset=utf-8";
// The version that Prometheus requests.
constexpr const char* kMetricsText = "text/plain; version=0.0.4; charset=utf-8";

constexpr const char* kHtml = "text/html; charset=utf-8";

// Decodes the text of a form: %XX is a byte, + a space. Other % stay as they are.
std::string Decoded(std::string_view text) {
  std::string decoded;
  for (size_t i = 0; i < text.size(); ++i) {
    uint32_t byte = 0;
    if (text[i] == '%' && i + 2 < text.size() && absl::ascii_isxdigit(text[i + 1]) &&
        absl::ascii_isxdigit(text[i + 2]) && absl::SimpleHexAtoi({text.data() + i + 1, 2}, &byte)) {
      decoded += static_cast<char>(byte);
      i += 2;
    } else {
      decoded += text[i] == '+' ? ' ' : text[i];
    }
  }
  return decoded;
}

// The value of the first `parameter` in `query`, if there is one.
std::optional<std::string> QueryValue(std::string_view query, const std::string& parameter) {
  while (!query.empty()) {
    const std::string_view pair = query.substr(0, query.find('&'));
    query.remove_prefix(std::min(pair.size() + 1, query.size()));
    const size_t equals = pair.find('=');
    if (equals != std::string_view::npos && pair.substr(0, equals) == parameter) {
      return Decoded(pair.substr(equals + 1));
    }
  }
  return std::nullopt;
}

HttpAnswer AnswerWith(const HttpPage& page, const ReceivedRequest& request) {
  absl::StatusOr<std::string> html = page.render(QueryValue(request.query, page.parameter));
  if (html.ok()) return {"200 OK", kHtml, *std::move(html)};
  return {absl::IsNotFound(html.status()) ? "404 Not Found" : "500 Internal Server Error",
          kPlainText, absl::StrCat(html.status().message(), "\n")};
}

}  // namespace

absl::StatusOr<std::unique_ptr<HttpEndpoint>> HttpEndpoint::Start(const std::string& address,
                                                                  HttpContent content) {
  std::unique_ptr<HttpEndpoint> endpoint(new HttpEndpoint(std::move(content)));
  auto server =
      HttpServer::Start(address, [endpoint = endpoint.get()](const ReceivedRequest& request) {
        return endpoint->AnswerTo(request);
      });
  if (!server.ok()) return server.status();
  endpoint->server_ = *std::move(server);
  return endpoint;
}

HttpEndpoint::HttpEndpoint(HttpContent content)
    : content_(std::move(content)), paths_("/metrics, /healthz, /readyz") {
  for (const HttpPage& page : content_.pages) absl::StrAppend(&paths_, ", ", page.path);
}

HttpAnswer HttpEndpoint::AnswerTo(const ReceivedRequest& request) const {
  const std::string_view path = request.path;
  const auto page = std::find_if(content_.pages.begin(), content_.pages.end(),
                                 [path](const HttpPage& page) { return page.path == path; });
  const bool is_page = page != content_.pages.end();
  if (!is_page && path != "/metrics" && path != "/healthz" && path != "/readyz") {
    return {"404 Not Found", kPlainText, absl::StrCat("try ", paths_, "\n")};
  }
  if (request.method != "GET" && request.method != "HEAD") {
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
