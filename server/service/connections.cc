#include "server/service/connections.h"

#include <fcntl.h>
#include <grpc/grpc.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstddef>
#include <filesystem>
#include <limits>
#include <set>
#include <string>
#include <string_view>
#include <system_error>

#include "absl/strings/numbers.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"

namespace batchplan {
namespace {

// gRPC's "never".
constexpr int kNever = std::numeric_limits<int>::max();

int Milliseconds(absl::Duration duration) {
  return static_cast<int>(absl::ToInt64Milliseconds(duration));
}

int MillisecondsOrNever(absl::Duration duration) {
  return duration == absl::ZeroDuration() ? kNever : Milliseconds(duration);
}

// An end of a connection or of a listener: a TCP port, or the path of a unix socket.
struct End {
  int port = 0;
  std::string path;

  bool operator==(const End&) const = default;
};

using NameFunction = int (*)(int, sockaddr*, socklen_t*);

// Reads the end that `name` (getsockname or getpeername) has for `descriptor`; false if it has
// none.
bool ReadEnd(NameFunction name, int descriptor, End* end) {
  sockaddr_storage address{};
  socklen_t size = sizeof(address);
  if (name(descriptor, reinterpret_cast<sockaddr*>(&address), &size) != 0) return false;
  if (address.ss_family == AF_INET) {
    end->port = ntohs(reinterpret_cast<const sockaddr_in*>(&address)->sin_port);
  } else if (address.ss_family == AF_INET6) {
    end->port = ntohs(reinterpret_cast<const sockaddr_in6*>(&address)->sin6_port);
  } else if (address.ss_family == AF_UNIX) {
    constexpr size_t kPath = offsetof(sockaddr_un, sun_path);
    if (size > kPath) end->path = reinterpret_cast<const sockaddr_un*>(&address)->sun_path;
  } else {
    return false;
  }
  return true;
}

bool IsListener(int descriptor) {
  int listens = 0;
  socklen_t size = sizeof(listens);
  return getsockopt(descriptor, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) == 0 && listens != 0;
}

// Calls `visit` with each socket of this process whose own end is `local`.
template <typename Visit>
void ForEachSocket(const End& local, const Visit& visit) {
  std::error_code error;
  for (std::filesystem::directory_iterator entry("/proc/self/fd", error), end;
       !error && entry != end; entry.increment(error)) {
    int number = -1;
    End found;
    if (!absl::SimpleAtoi(entry->path().filename().string(), &number) ||
        !ReadEnd(&getsockname, number, &found) || found != local) {
      continue;
    }
    // gRPC may close the descriptor at any moment, and its number may then be another file's. So
    // the socket is looked at again, and changed, through a copy of the descriptor.
    const int descriptor = fcntl(number, F_DUPFD_CLOEXEC, 0);
    if (descriptor < 0) continue;
    found = {};
    if (ReadEnd(&getsockname, descriptor, &found) && found == local) visit(descriptor);
    close(descriptor);
  }
}

// The port at the end of a peer's name; 0 if it has none.
int PortOf(std::string_view peer) {
  int port = 0;
  const std::string_view digits = peer.substr(peer.rfind(':') + 1);
  return absl::SimpleAtoi(absl::string_view(digits.data(), digits.size()), &port) ? port : 0;
}

std::string PathOf(const std::string& listen) {
  absl::string_view path = listen;
  if (!absl::ConsumePrefix(&path, "unix:")) return "";
  // A URI with an empty authority.
  absl::ConsumePrefix(&path, "//");
  return std::string(path);
}

}  // namespace

void SetConnectionLimits(const ServerOptions& options, grpc::ServerBuilder* builder) {
  const auto set = [builder](const char* name, int value) {
    builder->AddChannelArgument(name, value);
  };
  builder->SetMaxReceiveMessageSize(static_cast<int>(options.max_message_bytes));
  builder->SetMaxSendMessageSize(static_cast<int>(options.max_message_bytes));
  // With SO_REUSEPORT, a second server would share the port with the first, and get half its calls.
  set(GRPC_ARG_ALLOW_REUSEPORT, 0);
  set(GRPC_ARG_KEEPALIVE_TIME_MS, Milliseconds(options.keepalive_interval));
  set(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, Milliseconds(options.keepalive_timeout));
  // Between two training steps a connection has no calls, but must be kept alive.
  set(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  set(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  set(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS,
      Milliseconds(options.min_client_ping_interval));
  set(GRPC_ARG_MAX_CONNECTION_IDLE_MS, MillisecondsOrNever(options.max_connection_idle));
  set(GRPC_ARG_MAX_CONNECTION_AGE_MS, MillisecondsOrNever(options.max_connection_age));
  // For this option, 0 means no grace.
  set(GRPC_ARG_MAX_CONNECTION_AGE_GRACE_MS, Milliseconds(options.max_connection_age_grace));
  set(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, Milliseconds(options.handshake_timeout));
  set(GRPC_ARG_MAX_CONCURRENT_STREAMS, static_cast<int>(options.max_concurrent_streams));
  set(GRPC_ARG_MAX_METADATA_SIZE, static_cast<int>(options.max_metadata_bytes));
}

OpenConnections::OpenConnections(const std::string& listen, int port)
    : port_(PathOf(listen).empty() ? port : 0), path_(PathOf(listen)) {}

std::vector<int> OpenConnections::CopiesOfListeners() const {
  std::vector<int> listeners;
  ForEachSocket({.port = port_, .path = path_}, [&listeners](int descriptor) {
    const int copy = IsListener(descriptor) ? fcntl(descriptor, F_DUPFD_CLOEXEC, 0) : -1;
    if (copy >= 0) listeners.push_back(copy);
  });
  return listeners;
}

std::set<uint64_t> OpenConnections::Taken() const {
  std::set<uint64_t> taken;
  ForEachSocket({.port = port_, .path = path_}, [&taken](int descriptor) {
    struct stat socket {};
    if (!IsListener(descriptor) && fstat(descriptor, &socket) == 0) taken.insert(socket.st_ino);
  });
  return taken;
}

void OpenConnections::StopListening() const {
  ForEachSocket({.port = port_, .path = path_}, [](int descriptor) {
    if (IsListener(descriptor)) shutdown(descriptor, SHUT_RD);
  });
}

void OpenConnections::EndAllBut(const std::vector<std::string>& peers) const {
  std::set<int> spared;
  for (const std::string& peer : peers) spared.insert(PortOf(peer));
  ForEachSocket({.port = port_, .path = path_}, [&spared](int descriptor) {
    End peer;
    if (ReadEnd(&getpeername, descriptor, &peer) && !spared.contains(peer.port)) {
      shutdown(descriptor, SHUT_WR);
    }
  });
}

}  // namespace batchplan
