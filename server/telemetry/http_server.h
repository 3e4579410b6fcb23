// A small HTTP server for small GETs, on a single thread.
//
//   absl::StatusOr<std::unique_ptr<HttpServer>> server =
//       HttpServer::Start("127.0.0.1:9464", [](const ReceivedRequest& request) -> HttpAnswer { ...
//       });
//
// A connection is one request without a body, and one answer. Slow clients delay nobody: an
// incomplete request costs a descriptor but no thread, and at kMaxHttpConnections the oldest
// unfinished one is closed for a new one, so that a prompt client is answered at once. A client is
// cut off if it does not send its request, or reads nothing of the answer, within kHttpTimeout.
// Some descriptors are reserved in case the process runs out of them. The memory of unread answers
// is bounded too: the oldest is dropped first.
//
// Serves until destroyed, which waits at most for the answer being made.

#ifndef BATCHPLAN_SERVER_TELEMETRY_HTTP_SERVER_H_
#define BATCHPLAN_SERVER_TELEMETRY_HTTP_SERVER_H_

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace batchplan {

inline constexpr absl::Duration kHttpTimeout = absl::Seconds(2);
inline constexpr size_t kMaxHttpConnections = 256;
inline constexpr size_t kMaxHttpRequestBytes = 8 << 10;
inline constexpr size_t kMaxUnsentHttpBytes = 32 << 20;
inline constexpr size_t kReservedDescriptors = 8;

// As received, without decoding.
struct ReceivedRequest {
  std::string_view method;
  std::string_view path;
  // The part of the target behind its question mark.
  std::string_view query;
};

struct HttpAnswer {
  // For instance "200 OK".
  std::string_view status;
  std::string_view type;
  std::string body;
  // Each header with its line end.
  std::string_view more_headers = {};
};

// Called on the server's thread for each request. An exception becomes a 500.
using HttpHandler = std::function<HttpAnswer(const ReceivedRequest& request)>;

class HttpServer {
 public:
  // Listens on `address`, HOST:PORT; port 0 means any free port. FailedPrecondition if the address
  // is in use or can't be listened on.
  static absl::StatusOr<std::unique_ptr<HttpServer>> Start(const std::string& address,
                                                           HttpHandler handler);

  ~HttpServer();

  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  // The port that is listened on.
  int port() const;

 private:
  class Loop;

  explicit HttpServer(std::unique_ptr<Loop> loop);

  const std::unique_ptr<Loop> loop_;
};

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_TELEMETRY_HTTP_SERVER_H_
