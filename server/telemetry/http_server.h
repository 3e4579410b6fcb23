// A small HTTP server for small GETs, all of it on one thread.
//
//   absl::StatusOr<std::unique_ptr<HttpServer>> server =
//       HttpServer::Start("127.0.0.1:9464", [](const ReceivedRequest& request) -> HttpAnswer { ...
//       });
//
// A connection is one request, without a body, and one answer. Nobody's slowness holds up anybody
// else: a connection that has not sent all of its request costs a descriptor and no thread, and
// when there are kMaxHttpConnections the oldest that is not done gives way to a new one, so that
// who asks at once is answered at once. Who has not sent all of a request within kHttpTimeout, or
// reads nothing of the answer for so long, is cut off. Some descriptors are kept back for when the
// process has no more. Answers that nobody reads are bounded too, the oldest going first.
//
// Serves until it is destroyed, which takes no longer than the answer being made.

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

// As it came: nothing is decoded.
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

// Called on the server's thread, for every request. What it throws is answered with 500.
using HttpHandler = std::function<HttpAnswer(const ReceivedRequest& request)>;

class HttpServer {
 public:
  // Listens on `address`, HOST:PORT; port 0 takes a free one. FailedPrecondition if the address is
  // taken or can't be listened on.
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
