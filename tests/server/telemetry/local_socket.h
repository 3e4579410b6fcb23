// A plain TCP connection to a port of this machine, to send what no gRPC client would.

#ifndef BATCHPLAN_TESTS_SERVER_TELEMETRY_LOCAL_SOCKET_H_
#define BATCHPLAN_TESTS_SERVER_TELEMETRY_LOCAL_SOCKET_H_

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "absl/time/time.h"

namespace batchplan {

class LocalSocket {
 public:
  // Not connected.
  LocalSocket() : descriptor_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {}

  // `receive_bytes` limits roughly how much can be on its way to this socket.
  explicit LocalSocket(int port, int receive_bytes = 0) : LocalSocket() {
    if (receive_bytes > 0) {
      setsockopt(descriptor_, SOL_SOCKET, SO_RCVBUF, &receive_bytes, sizeof(receive_bytes));
    }
    Connect(port);
  }

  bool Connect(int port) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connected_ =
        connect(descriptor_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
    return connected_;
  }
  ~LocalSocket() { close(descriptor_); }

  LocalSocket(const LocalSocket&) = delete;
  LocalSocket& operator=(const LocalSocket&) = delete;

  bool connected() const { return connected_; }

  // Sends all of `bytes`; false if the other side closes before.
  bool Send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t sent = send(descriptor_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) return false;
      bytes.remove_prefix(static_cast<size_t>(sent));
    }
    return true;
  }

  // Like Send, and then closes this direction.
  void SendAll(std::string_view bytes) {
    Send(bytes);
    shutdown(descriptor_, SHUT_WR);
  }

  // Whether the other side closes or sends something within `time`.
  bool ClosedWithin(absl::Duration time) {
    pollfd wanted{.fd = descriptor_, .events = POLLIN, .revents = 0};
    return poll(&wanted, 1, static_cast<int>(absl::ToInt64Milliseconds(time))) > 0;
  }

  // Receives until the other side closes.
  std::string ReceiveAll() {
    std::string received;
    std::array<char, 4096> buffer;
    for (;;) {
      const ssize_t bytes = recv(descriptor_, buffer.data(), buffer.size(), 0);
      if (bytes <= 0) return received;
      received.append(buffer.data(), static_cast<size_t>(bytes));
    }
  }

 private:
  const int descriptor_;
  bool connected_ = false;
};

// Sends `request` to the HTTP server on `port`; returns status line, headers and body.
inline std::string HttpRequest(int port, std::string_view request) {
  LocalSocket socket(port);
  if (!socket.connected()) return "";
  socket.SendAll(request);
  return socket.ReceiveAll();
}

inline std::string HttpGet(int port, std::string_view path) {
  return HttpRequest(port, std::string("GET ").append(path).append(" HTTP/1.0\r\n\r\n"));
}

}  // namespace batchplan

#endif  // BATCHPLAN_TESTS_SERVER_TELEMETRY_LOCAL_SOCKET_H_
