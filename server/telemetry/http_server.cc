#include "server/telemetry/http_server.h"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <iterator>
#include <list>
#include <new>
#include <optional>
#include <stop_token>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

namespace batchplan {
namespace {

using Clock = std::chrono::steady_clock;

// How long the listener rests if there is no descriptor for a new connection.
constexpr std::chrono::milliseconds kWithoutDescriptors{100};

constexpr std::chrono::milliseconds kLongestTurn{20};

// How many connections are accepted before the others are served again.
constexpr size_t kAcceptedAtOnce = 32;

class Descriptor {
 public:
  explicit Descriptor(int number = -1) : number_(number) {}
  Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  ~Descriptor() {
    if (number_ >= 0) close(number_);
  }

  int number() const { return number_; }

 private:
  int number_;
};

// A socket that listens at `found`; -1 if there can be none.
Descriptor ListenAt(const addrinfo& found) {
  Descriptor listener(socket(found.ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  const int yes = 1;
  const int no = 0;
  setsockopt(listener.number(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
  // [::] also accepts IPv4, as in gRPC.
  if (found.ai_family == AF_INET6) {
    setsockopt(listener.number(), IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof(no));
  }
  if (bind(listener.number(), found.ai_addr, found.ai_addrlen) != 0 ||
      listen(listener.number(), SOMAXCONN) != 0) {
    return Descriptor();
  }
  return listener;
}

// A socket that listens at `address`, HOST:PORT; -1 if there can be none.
Descriptor ListenAt(const std::string& address) {
  const size_t colon = address.rfind(':');
  if (colon == std::string::npos) return Descriptor();
  std::string host = address.substr(0, colon);
  if (host.starts_with('[')) host = host.substr(1, host.size() - 2);
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  if (getaddrinfo(host.c_str(), address.c_str() + colon + 1, &hints, &found) != 0) {
    return Descriptor();
  }
  Descriptor listener;
  // For a name with both, 127.0.0.1 is preferred to ::1: most others mean it by localhost.
  for (const int family : {AF_INET, AF_INET6}) {
    for (const addrinfo* one = found; one != nullptr && listener.number() < 0; one = one->ai_next) {
      if (one->ai_family == family) listener = ListenAt(*one);
    }
  }
  freeaddrinfo(found);
  return listener;
}

int PortOf(const Descriptor& listener) {
  sockaddr_storage address{};
  socklen_t size = sizeof(address);
  if (getsockname(listener.number(), reinterpret_cast<sockaddr*>(&address), &size) != 0) return 0;
  return ntohs(address.ss_family == AF_INET6
                   ? reinterpret_cast<const sockaddr_in6*>(&address)->sin6_port
                   : reinterpret_cast<const sockaddr_in*>(&address)->sin_port);
}

// Parses the first line of `text`.
std::optional<ReceivedRequest> ParseRequest(std::string_view text) {
  std::string_view line = text.substr(0, text.find("\r\n"));
  const size_t method_end = line.find(' ');
  const size_t target_end = line.rfind(' ');
  if (method_end == 0 || method_end == std::string_view::npos || method_end == target_end ||
      !line.substr(target_end + 1).starts_with("HTTP/1.")) {
    return std::nullopt;
  }
  const std::string_view target = line.substr(method_end + 1, target_end - method_end - 1);
  const size_t path_end = std::min(target.find('?'), target.size());
  return ReceivedRequest{.method = line.substr(0, method_end),
                         .path = target.substr(0, path_end),
                         .query = target.substr(std::min(path_end + 1, target.size()))};
}

std::string Serialize(const HttpAnswer& answer, bool head_only) {
  std::string text;
  text.append("HTTP/1.1 ").append(answer.status).append("\r\n");
  text.append("Content-Type: ").append(answer.type).append("\r\n");
  absl::StrAppend(&text, "Content-Length: ", answer.body.size(), "\r\n");
  text.append("Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n");
  text.append("Connection: close\r\n").append(answer.more_headers).append("\r\n");
  if (!head_only) text.append(answer.body);
  return text;
}

// Answers are short, so that no memory is needed beyond a line's.
HttpAnswer Failure(std::string_view status, std::string_view why) {
  return {status, "text/plain; charset=utf-8", std::string(why)};
}

struct Connection {
  enum class State { kReading, kWriting, kClosing };

  Descriptor descriptor;
  Clock::time_point deadline;
  State state = State::kReading;
  // The request as far as it was received; later the answer, with `sent` bytes of it sent.
  std::string text;
  size_t sent = 0;

  size_t unsent() const { return state == State::kWriting ? text.size() - sent : 0; }
};

}  // namespace

class HttpServer::Loop {
 public:
  Loop(Descriptor listener, HttpHandler handler)
      : listener_(std::move(listener)),
        wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
        handler_(std::move(handler)),
        port_(PortOf(listener_)) {
    KeepDescriptorsBack();
    thread_ = std::jthread([this](const std::stop_token& stop) {
      while (!stop.stop_requested()) {
        try {
          Turn();
        } catch (const std::bad_alloc&) {
          connections_.clear();
        }
      }
    });
  }

  ~Loop() {
    thread_.request_stop();
    const uint64_t one = 1;
    static_cast<void>(write(wake_.number(), &one, sizeof(one)));
  }

  int port() const { return port_; }

 private:
  using Connections = std::list<Connection>;

  // Waits for an event and handles it.
  void Turn() {
    std::vector<pollfd> wanted = {{.fd = wake_.number(), .events = POLLIN, .revents = 0},
                                  {.fd = Clock::now() < accept_after_ ? -1 : listener_.number(),
                                   .events = POLLIN,
                                   .revents = 0}};
    std::optional<Clock::time_point> until;
    if (wanted[1].fd < 0) until = accept_after_;
    for (const Connection& connection : connections_) {
      const bool writes = connection.state == Connection::State::kWriting;
      wanted.push_back({.fd = connection.descriptor.number(),
                        .events = static_cast<int16_t>(writes ? POLLOUT : POLLIN),
                        .revents = 0});
      until = std::min(until.value_or(connection.deadline), connection.deadline);
    }
    int timeout = -1;
    if (until.has_value()) {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(*until - Clock::now());
      timeout = static_cast<int>(std::max<int64_t>(0, left.count()));
    }
    if (poll(wanted.data(), wanted.size(), timeout) < 0) return;

    // The youngest connections come first, and only for a moment: many large requests do not delay
    // those that come later.
    const Clock::time_point start = Clock::now();
    auto ready = wanted.rbegin();
    for (auto it = connections_.end(); it != connections_.begin(); ++ready) {
      const auto connection = std::prev(it);
      bool goes_on = true;
      if (ready->revents != 0 && Clock::now() < start + kLongestTurn) {
        goes_on = Continue(*connection);
      } else if (connection->deadline <= start) {
        goes_on = false;
      }
      it = goes_on ? connection : connections_.erase(connection);
    }
    DropUnread();
    if (wanted[1].revents != 0) AcceptSome();
    KeepDescriptorsBack();
  }

  // Whether the connection goes on. If memory runs out, it is closed.
  bool Continue(Connection& connection) {
    try {
      switch (connection.state) {
        case Connection::State::kReading:
          return Read(connection);
        case Connection::State::kWriting:
          return Write(connection);
        case Connection::State::kClosing:
          return ReadRest(connection);
      }
    } catch (...) {
    }
    return false;
  }

  bool Read(Connection& connection) {
    std::array<char, kMaxHttpRequestBytes> bytes;
    const ssize_t count = recv(connection.descriptor.number(), bytes.data(), bytes.size(), 0);
    if (count < 0) return errno == EAGAIN || errno == EINTR;
    if (count == 0) return false;
    connection.text.append(bytes.data(), static_cast<size_t>(count));
    if (connection.text.find("\r\n\r\n") == std::string::npos) {
      if (connection.text.size() < kMaxHttpRequestBytes) return true;
      connection.text = Serialize(Failure("431 Request Header Fields Too Large", "too long\n"),
                                  /*head_only=*/false);
    } else {
      connection.text = AnswerTo(connection.text);
    }
    connection.state = Connection::State::kWriting;
    connection.deadline = Clock::now() + absl::ToChronoNanoseconds(kHttpTimeout);
    return Write(connection);
  }

  std::string AnswerTo(const std::string& text) {
    const std::optional<ReceivedRequest> request = ParseRequest(text);
    if (!request.has_value()) return Serialize(Failure("400 Bad Request", "no request\n"), false);
    const bool head_only = request->method == "HEAD";
    constexpr std::string_view kError = "500 Internal Server Error";
    try {
      return Serialize(handler_(*request), head_only);
    } catch (const std::bad_alloc&) {
      return Serialize(Failure(kError, "out of memory\n"), head_only);
    } catch (...) {
      return Serialize(Failure(kError, "unexpected exception\n"), head_only);
    }
  }

  bool Write(Connection& connection) {
    const ssize_t count =
        send(connection.descriptor.number(), connection.text.data() + connection.sent,
             connection.text.size() - connection.sent, MSG_NOSIGNAL);
    if (count < 0) return errno == EAGAIN || errno == EINTR;
    connection.sent += static_cast<size_t>(count);
    connection.deadline = Clock::now() + absl::ToChronoNanoseconds(kHttpTimeout);
    if (connection.sent < connection.text.size()) return true;
    // Closing with unread bytes of the request would reset the connection and lose the answer.
    connection.state = Connection::State::kClosing;
    connection.text = std::string();
    shutdown(connection.descriptor.number(), SHUT_WR);
    return ReadRest(connection);
  }

  // Reads until the other side closes or the deadline, which is not extended.
  bool ReadRest(Connection& connection) {
    std::array<char, kMaxHttpRequestBytes> bytes;
    const ssize_t count = recv(connection.descriptor.number(), bytes.data(), bytes.size(), 0);
    return count > 0 || (count < 0 && (errno == EAGAIN || errno == EINTR));
  }

  void AcceptSome() {
    for (size_t i = 0; i < kAcceptedAtOnce; ++i) {
      Descriptor accepted(
          accept4(listener_.number(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
      if (accepted.number() < 0 && (errno == EMFILE || errno == ENFILE)) {
        if (!FreeDescriptor()) {
          accept_after_ = Clock::now() + kWithoutDescriptors;
          return;
        }
        continue;
      }
      if (accepted.number() < 0) return;
      if (connections_.size() >= kMaxHttpConnections) connections_.pop_front();
      connections_.push_back({.descriptor = std::move(accepted),
                              .deadline = Clock::now() + absl::ToChronoNanoseconds(kHttpTimeout),
                              .text = {}});
    }
  }

  // Frees a reserved descriptor, or the oldest connection's.
  bool FreeDescriptor() {
    if (!reserve_.empty()) {
      reserve_.pop_back();
      return true;
    }
    if (connections_.empty()) return false;
    connections_.pop_front();
    return true;
  }

  void KeepDescriptorsBack() {
    while (reserve_.size() < kReservedDescriptors) {
      Descriptor kept(fcntl(wake_.number(), F_DUPFD_CLOEXEC, 0));
      if (kept.number() < 0) return;
      reserve_.push_back(std::move(kept));
    }
  }

  // If all unsent answers are too large together, drops the oldest ones. A single answer may be of
  // any size.
  void DropUnread() {
    size_t unsent = 0;
    for (const Connection& connection : connections_) unsent += connection.unsent();
    for (auto it = connections_.begin(); unsent > kMaxUnsentHttpBytes && it != connections_.end() &&
                                         std::next(it) != connections_.end();) {
      const auto connection = it++;
      if (connection->unsent() == 0) continue;
      unsent -= connection->unsent();
      connections_.erase(connection);
    }
  }

  const Descriptor listener_;
  const Descriptor wake_;
  const HttpHandler handler_;
  const int port_;
  // In order of arrival.
  Connections connections_;
  std::vector<Descriptor> reserve_;
  Clock::time_point accept_after_;
  // The last member, so that it ends before what it uses.
  std::jthread thread_;
};

absl::StatusOr<std::unique_ptr<HttpServer>> HttpServer::Start(const std::string& address,
                                                              HttpHandler handler) {
  Descriptor listener = ListenAt(address);
  if (listener.number() < 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("can't listen on ", address, ": address already in use or not valid"));
  }
  return std::unique_ptr<HttpServer>(
      new HttpServer(std::make_unique<Loop>(std::move(listener), std::move(handler))));
}

HttpServer::HttpServer(std::unique_ptr<Loop> loop) : loop_(std::move(loop)) {}

HttpServer::~HttpServer() = default;

int HttpServer::port() const { return loop_->port(); }

}  // namespace batchplan
