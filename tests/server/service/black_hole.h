// A TCP proxy to a server on loopback that can swallow all bytes, like a network that drops
// packets. Connections stay open and new ones are accepted, but nothing comes through.
//
//   BlackHole proxy(server_port);          // passes everything on
//   proxy.Swallow();
//   proxy.Pass();                          // the bytes of before are lost; new connections live

#ifndef BATCHPLAN_TESTS_SERVER_SERVICE_BLACK_HOLE_H_
#define BATCHPLAN_TESTS_SERVER_SERVICE_BLACK_HOLE_H_

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <stop_token>
#include <thread>
#include <vector>

namespace batchplan {

class BlackHole {
 public:
  explicit BlackHole(int server_port)
      : server_port_(server_port),
        listener_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)) {
    sockaddr_in address = Loopback(0);
    socklen_t size = sizeof(address);
    if (bind(listener_, reinterpret_cast<sockaddr*>(&address), size) == 0 &&
        listen(listener_, 64) == 0 &&
        getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size) == 0) {
      port_ = ntohs(address.sin_port);
    }
    accepter_ = std::jthread([this](const std::stop_token& stop) { Accept(stop); });
  }

  ~BlackHole() {
    accepter_.request_stop();
    accepter_.join();
    pumps_.clear();
    close(listener_);
  }

  BlackHole(const BlackHole&) = delete;
  BlackHole& operator=(const BlackHole&) = delete;

  int port() const { return port_; }

  void Swallow() { swallows_ = true; }
  void Pass() { swallows_ = false; }

 private:
  static constexpr int kLookMilliseconds = 20;

  static sockaddr_in Loopback(int port) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(static_cast<uint16_t>(port));
    return address;
  }

  void Accept(const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      pollfd one = {.fd = listener_, .events = POLLIN, .revents = 0};
      if (poll(&one, 1, kLookMilliseconds) != 1) continue;
      const int client = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
      const int server = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
      const sockaddr_in address = Loopback(server_port_);
      if (connect(server, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
        close(server);
        close(client);
        continue;
      }
      pumps_.emplace_back(
          [this, client, server](const std::stop_token& ending) { Pump(client, server, ending); });
    }
  }

  // Carries bytes in both directions until either end closes.
  void Pump(int client, int server, const std::stop_token& stop) const {
    std::array<char, 65536> bytes;
    bool open = true;
    while (open && !stop.stop_requested()) {
      std::array<pollfd, 2> ends = {pollfd{.fd = client, .events = POLLIN, .revents = 0},
                                    pollfd{.fd = server, .events = POLLIN, .revents = 0}};
      if (poll(ends.data(), ends.size(), kLookMilliseconds) <= 0) continue;
      for (const pollfd& end : ends) {
        if (end.revents == 0) continue;
        const ssize_t size = recv(end.fd, bytes.data(), bytes.size(), 0);
        if (size <= 0) open = false;
        if (size <= 0 || swallows_) continue;
        const int other = end.fd == client ? server : client;
        open = open && send(other, bytes.data(), static_cast<size_t>(size), MSG_NOSIGNAL) == size;
      }
    }
    close(client);
    close(server);
  }

  const int server_port_;
  const int listener_;
  int port_ = 0;
  std::atomic<bool> swallows_ = false;
  // Used by the accepting thread alone until it has ended.
  std::vector<std::jthread> pumps_;
  std::jthread accepter_;
};

}  // namespace batchplan

#endif  // BATCHPLAN_TESTS_SERVER_SERVICE_BLACK_HOLE_H_
