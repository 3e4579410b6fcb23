// A small HTTP server for small GETs, all of it on one thread.
//
//   absl::StatusOr<std::unique_ptr<HttpServer>> server =
//       HttpServer::Start("127.0.0.1:9464", [](const ReceivedRequest& request) -> HttpAnswer { ...
//       });
//
// A connection is one request, without a body, and one answer. Slow clients delay nobody: a
// connection with an incomplete request costs a descriptor and no thread, and at
// kMaxHttpConnections the oldest unfinished one gives way to a new one, so that a client that asks
// at once is answered at once. A client that has not sent its request within kHttpTimeout, or reads
// nothing of the answer for that long, is cut off. Some descriptors are reserved for when the
// process has no more. Unread answers are bounded too; the oldest goes first.
//
// Serves until it is destroyed, which waits at most for the answer being made.

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

// As received: nothing is decoded.
struct ReceivedRequest {
  std::string_view method;
  std::string_view path;
  // What follows the path's question mark.
  std::string_view query;
};

struct HttpAnswer {
  // "200 OK".
  std::string_view status;
  std::string_view type;
  std::string body;
  // Each with its line's end.
  std::string_view more_headers = {};
};

// Called on the server's thread for every request. Exceptions are answered with 500.
using HttpHandler = std::function<HttpAnswer(const ReceivedRequest& request)>;

class HttpServer {
 public:
  // Listens on `address`, HOST:PORT; port 0 chooses a free one. FailedPrecondition if the address
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
