#include "tests/support/reserved_port.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>

namespace batchplan::testing {
namespace {

// Ports below are often those of services.
constexpr int kFirst = 10000;
constexpr int kMost = 20000;

// The ports from kFirst to the first that the kernel chooses from, as processes.py has them. Where
// it chooses from all, those that others may get too.
int Ports() {
  int first = 0;
  std::ifstream("/proc/sys/net/ipv4/ip_local_port_range") >> first;
  return first > kFirst ? std::min(first - kFirst, kMost) : kMost;
}

// A socket with the port's abstract name, which is as wide as the network's namespace and ends with
// the process; -1 if another one has it.
int Reserve(int port) {
  const int descriptor = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  const std::string name = "batchplan-test-port-" + std::to_string(port);
  name.copy(address.sun_path + 1, name.size());
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  if (bind(descriptor, reinterpret_cast<sockaddr*>(&address), size) == 0) return descriptor;
  close(descriptor);
  return -1;
}

bool IsFree(int port) {
  const int descriptor = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  // As servers do, past connections that are not forgotten yet.
  const int reuse = 1;
  setsockopt(descriptor, SOL_SOCKET, SO_REUSEADDR, &reuse, sizeof(reuse));
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_ANY);
  address.sin_port = htons(static_cast<uint16_t>(port));
  const bool free = bind(descriptor, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0;
  close(descriptor);
  return free;
}

}  // namespace

ReservedPort::ReservedPort() {
  const int ports = Ports();
  for (int i = 0; i < ports; ++i) {
    number_ = kFirst + (getpid() + i) % ports;
    reservation_ = Reserve(number_);
    if (reservation_ < 0) continue;
    if (IsFree(number_)) return;
    close(reservation_);
  }
  std::fprintf(stderr, "no port from %d to %d is free\n", kFirst, kFirst + ports - 1);
  std::abort();
}

ReservedPort::~ReservedPort() { close(reservation_); }

}  // namespace batchplan::testing
