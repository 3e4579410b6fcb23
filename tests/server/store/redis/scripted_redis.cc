#include "tests/server/store/redis/scripted_redis.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <utility>

namespace batchplan::testing {

bool RedisPeer::ReadUntil(const std::string& text) {
  std::string received;
  std::array<char, 65536> buffer;
  for (size_t searched = 0; received.find(text, searched) == std::string::npos;) {
    searched = received.size() - std::min(received.size(), text.size());
    const ssize_t count = recv(descriptor_, buffer.data(), buffer.size(), 0);
    if (count <= 0) return false;
    received.append(buffer.data(), static_cast<size_t>(count));
  }
  return true;
}

bool RedisPeer::Write(const std::string& text) {
  return send(descriptor_, text.data(), text.size(), MSG_NOSIGNAL) ==
         static_cast<ssize_t>(text.size());
}

void RedisPeer::AwaitClose() {
  std::array<char, 65536> buffer;
  while (recv(descriptor_, buffer.data(), buffer.size(), 0) > 0) {
  }
}

ScriptedRedis::ScriptedRedis(std::vector<std::function<void(RedisPeer&)>> scripts)
    : listener_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  if (bind(listener_, reinterpret_cast<sockaddr*>(&address), size) == 0 &&
      listen(listener_, 16) == 0 &&
      getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size) == 0) {
    port_ = ntohs(address.sin_port);
  }
  thread_ = std::thread([this, scripts = std::move(scripts)] {
    for (size_t i = 0; i < scripts.size(); ++i) {
      const int descriptor = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
      if (descriptor < 0) return;
      ++connections_;
      // Stops listening before the last script's first byte, so that nobody can connect after
      // reading it.
      if (i + 1 == scripts.size()) shutdown(listener_, SHUT_RDWR);
      RedisPeer peer(descriptor);
      scripts[i](peer);
      close(descriptor);
    }
  });
}

ScriptedRedis::~ScriptedRedis() {
  shutdown(listener_, SHUT_RDWR);
  thread_.join();
  close(listener_);
}

}  // namespace batchplan::testing
