#include "server/store/redis/redis_connection.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <limits>
#include <new>
#include <string>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"

namespace batchplan {
namespace {

// A part has megabytes; hiredis reads only 16 KiB at a time.
constexpr size_t kReadBytes = size_t{64} << 10;

std::string ErrorText(int error) { return std::generic_category().message(error); }

// The time-out for poll, in milliseconds. Rounded up, so that the last fraction does not spin.
int PollTimeout(Instant deadline) {
  const auto left =
      std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
  return static_cast<int>(std::clamp<int64_t>(left.count(), 0, std::numeric_limits<int>::max()));
}

// The limit for texts of Redis in errors.
constexpr size_t kMaxErrorText = 200;

// The first words of error replies, by kind.
constexpr std::array<std::string_view, 1> kNoRoom = {"OOM"};
constexpr std::array<std::string_view, 6> kPassesByItself = {"LOADING",  "BUSY",       "MASTERDOWN",
                                                             "READONLY", "NOREPLICAS", "MISCONF"};
constexpr std::array<std::string_view, 4> kToBePutRight = {"NOAUTH", "WRONGPASS", "NOPERM",
                                                           "DENIED"};
// These come from a member of a Redis Cluster.
constexpr std::array<std::string_view, 5> kOfACluster = {"CROSSSLOT", "MOVED", "ASK", "CLUSTERDOWN",
                                                         "TRYAGAIN"};

bool IsWordByte(char byte) { return std::isalnum(static_cast<unsigned char>(byte)) != 0; }

// Whether `text` is the error `code`. An older Redis wraps an error within a script in "ERR Error
// running script ... : -CODE ...".
bool HasCode(std::string_view text, std::string_view code) {
  if (text.starts_with(code)) {
    return text.size() == code.size() || !IsWordByte(text[code.size()]);
  }
  if (!text.starts_with("ERR Error running script")) return false;
  const std::string wrapped = absl::StrCat(": -", std::string(code), " ");
  return text.find(wrapped) != std::string_view::npos;
}

bool HasOneOf(std::string_view text, std::span<const std::string_view> codes) {
  return std::any_of(codes.begin(), codes.end(),
                     [text](std::string_view code) { return HasCode(text, code); });
}

absl::StatusCode CodeOf(std::string_view text) {
  if (HasOneOf(text, kNoRoom)) return absl::StatusCode::kResourceExhausted;
  if (HasOneOf(text, kPassesByItself) || text.starts_with("ERR max number of clients")) {
    return absl::StatusCode::kUnavailable;
  }
  // The last one is what NOAUTH becomes for a client whose first command is long.
  if (HasOneOf(text, kToBePutRight) || IsOfRedisCluster(text) ||
      text.starts_with("ERR Protocol error: unauthenticated")) {
    return absl::StatusCode::kFailedPrecondition;
  }
  return absl::StatusCode::kInternal;
}

}  // namespace

Instant::duration TransferTime(size_t bytes) {
  return std::chrono::duration_cast<Instant::duration>(
      std::chrono::duration<double>(static_cast<double>(bytes) / kSlowestBytesPerSecond));
}

bool IsOfRedisCluster(std::string_view text) { return HasOneOf(text, kOfACluster); }

absl::Status StatusFromRedisError(std::string_view text) {
  return {CodeOf(text), std::string(text.substr(0, kMaxErrorText))};
}

absl::Status ExplainRedisFailure(const std::string& redacted_url, const absl::Status& status) {
  const std::string store = absl::StrCat("the rendezvous store ", redacted_url);
  switch (status.code()) {
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kDeadlineExceeded:
      return absl::UnavailableError(
          absl::StrCat(store, " can't be reached: ", status.message(),
                       "; JoinBatch and fitted costs wait for it, PlanBatch does not need it; "
                       "check --rendezvous_store, then retry"));
    case absl::StatusCode::kResourceExhausted:
      return absl::ResourceExhaustedError(
          absl::StrCat(store, " has no room: ", status.message(),
                       "; raise its maxmemory or wait until older steps are forgotten, then "
                       "retry"));
    case absl::StatusCode::kFailedPrecondition:
      return absl::FailedPreconditionError(
          absl::StrCat(store, " does not let this server in: ", status.message(),
                       "; check the user and database of --rendezvous_store, that it leads to a "
                       "Redis that is no cluster, --rendezvous_password, and for rediss:// the "
                       "files of --rendezvous_tls_ca, _certificate and _key"));
    default:
      return {status.code(),
              absl::StrCat(store, " answers what it should not: ", status.message())};
  }
}

absl::StatusOr<std::unique_ptr<RedisConnection>> RedisConnection::Open(const RedisAddress& address,
                                                                       Instant deadline, int wake) {
  std::unique_ptr<redisContext, FreeContext> context(
      address.socket_path.empty() ? redisConnectNonBlock(address.host.c_str(), address.port)
                                  : redisConnectUnixNonBlock(address.socket_path.c_str()));
  if (context == nullptr) throw std::bad_alloc();
  if (context->err != 0) {
    return absl::UnavailableError(std::string(static_cast<const char*>(context->errstr)));
  }
  std::unique_ptr<RedisConnection> connection(new RedisConnection(std::move(context), wake));
  absl::Status status = connection->FinishConnect(address, deadline);
  if (status.ok() && address.tls) status = connection->BeginTls(address, deadline);
  if (status.ok()) status = connection->Enter(address, deadline);
  if (!status.ok()) return status;
  return connection;
}

RedisConnection::RedisConnection(std::unique_ptr<redisContext, FreeContext> context, int wake)
    : context_(std::move(context)), wake_(wake), buffer_(kReadBytes) {}

absl::StatusOr<RedisReply> RedisConnection::Call(const RedisCommand& command, Instant deadline,
                                                 Instant::duration silence) {
  const absl::Status sent = Send(command, deadline);
  if (sent.ok()) return Receive(deadline, silence);
  if (!absl::IsUnavailable(sent)) return sent;
  // Before Redis hangs up, for instance on too many clients, it says why; with TLS, so do alerts.
  absl::StatusOr<RedisReply> last_words = Receive(deadline);
  if (last_words.ok() || absl::IsFailedPrecondition(last_words.status())) return last_words;
  return sent;
}

absl::Status RedisConnection::Send(const RedisCommand& command, Instant deadline) {
  std::vector<const char*> arguments;
  std::vector<size_t> sizes;
  for (const std::string_view argument : command) {
    arguments.push_back(argument.data());
    sizes.push_back(argument.size());
  }
  char* formatted = nullptr;
  const auto size = redisFormatCommandArgv(&formatted, static_cast<int>(command.size()),
                                           arguments.data(), sizes.data());
  if (size < 0) throw std::bad_alloc();
  const std::unique_ptr<char, decltype(&redisFreeCommand)> owner(formatted, redisFreeCommand);

  std::string_view rest(formatted, static_cast<size_t>(size));
  if (tls_ == nullptr) return SendBytes(rest, deadline);
  while (!rest.empty()) {
    const std::string_view some = rest.substr(0, kReadBytes);
    absl::Status status = tls_->Write(some);
    if (status.ok()) status = SendBytes(tls_->TakeOutgoing(), deadline);
    if (!status.ok()) return status;
    rest.remove_prefix(some.size());
  }
  return absl::OkStatus();
}

absl::Status RedisConnection::SendBytes(std::string_view bytes, Instant deadline) {
  while (!bytes.empty()) {
    const ssize_t sent =
        send(context_->fd, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent >= 0) {
      bytes.remove_prefix(static_cast<size_t>(sent));
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      if (absl::Status status = WaitFor(POLLOUT, deadline); !status.ok()) return status;
    } else if (errno != EINTR) {
      return absl::UnavailableError(ErrorText(errno));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<RedisReply> RedisConnection::Receive(Instant deadline, Instant::duration silence) {
  const bool grows = silence > Instant::duration::zero();
  Instant give_up = deadline;
  for (;;) {
    void* reply = nullptr;
    if (redisReaderGetReply(context_->reader, &reply) != REDIS_OK) {
      return absl::InternalError(std::string(static_cast<const char*>(context_->reader->errstr)));
    }
    if (reply != nullptr) return RedisReply(static_cast<redisReply*>(reply));
    const absl::StatusOr<size_t> received = ReceivePlain(give_up);
    if (!received.ok()) return received.status();
    redisReaderFeed(context_->reader, buffer_.data(), *received);
    if (grows) {
      deadline += TransferTime(*received);
      give_up = std::min(deadline, std::chrono::steady_clock::now() + silence);
    }
  }
}

absl::StatusOr<size_t> RedisConnection::ReceivePlain(Instant deadline) {
  if (tls_ == nullptr) return ReceiveBytes(deadline);
  for (;;) {
    absl::StatusOr<size_t> plain = tls_->Read(buffer_);
    if (!plain.ok() || *plain > 0) return plain;
    absl::StatusOr<size_t> received = ReceiveBytes(deadline);
    if (!received.ok()) return received;
    tls_->PutIncoming({buffer_.data(), *received});
  }
}

absl::StatusOr<size_t> RedisConnection::ReceiveBytes(Instant deadline) {
  for (;;) {
    const ssize_t received = recv(context_->fd, buffer_.data(), buffer_.size(), MSG_DONTWAIT);
    if (received > 0) return static_cast<size_t>(received);
    if (received == 0) return absl::UnavailableError("it closed the connection");
    if (errno == EAGAIN || errno == EWOULDBLOCK) {
      if (absl::Status status = WaitFor(POLLIN, deadline); !status.ok()) return status;
    } else if (errno != EINTR) {
      return absl::UnavailableError(ErrorText(errno));
    }
  }
}

absl::Status RedisConnection::WaitFor(short events, Instant deadline) const {
  // poll ignores negative descriptors.
  std::array<pollfd, 2> descriptors = {{{.fd = context_->fd, .events = events, .revents = 0},
                                        {.fd = wake_, .events = POLLIN, .revents = 0}}};
  for (;;) {
    const int ready = poll(descriptors.data(), descriptors.size(), PollTimeout(deadline));
    if (ready < 0 && errno == EINTR) continue;
    if (ready < 0) return absl::UnavailableError(ErrorText(errno));
    if (ready == 0) return absl::DeadlineExceededError("no answer in time");
    if (descriptors[1].revents != 0) return absl::CancelledError("stopped");
    return absl::OkStatus();
  }
}

absl::Status RedisConnection::FinishConnect(const RedisAddress& address, Instant deadline) {
  if (absl::Status status = WaitFor(POLLOUT, deadline); !status.ok()) {
    return absl::IsDeadlineExceeded(status) ? absl::DeadlineExceededError("no connection in time")
                                            : status;
  }
  int error = 0;
  socklen_t size = sizeof(error);
  if (getsockopt(context_->fd, SOL_SOCKET, SO_ERROR, &error, &size) != 0) error = errno;
  if (error != 0) return absl::UnavailableError(ErrorText(error));
  // Child processes do not inherit the descriptor; small commands are sent without delay.
  fcntl(context_->fd, F_SETFD, FD_CLOEXEC);
  if (address.socket_path.empty()) {
    const int yes = 1;
    setsockopt(context_->fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
  }
  return absl::OkStatus();
}

absl::Status RedisConnection::BeginTls(const RedisAddress& address, Instant deadline) {
  absl::StatusOr<std::unique_ptr<RedisTls>> tls = RedisTls::Begin(address.tls_files, address.host);
  if (!tls.ok()) return tls.status();
  tls_ = *std::move(tls);
  for (;;) {
    const absl::StatusOr<bool> done = tls_->Handshake();
    // Sends alerts too, which tell the other end of a failure.
    absl::Status sent = SendBytes(tls_->TakeOutgoing(), deadline);
    if (!done.ok()) return done.status();
    if (!sent.ok() || *done) return sent;
    const absl::StatusOr<size_t> received = ReceiveBytes(deadline);
    if (absl::IsDeadlineExceeded(received.status())) {
      return absl::DeadlineExceededError("no TLS in time");
    }
    if (!received.ok()) return received.status();
    tls_->PutIncoming({buffer_.data(), *received});
  }
}

absl::Status RedisConnection::Enter(const RedisAddress& address, Instant deadline) {
  std::vector<RedisCommand> commands;
  const std::string database = absl::StrCat(address.database);
  if (!address.user.empty()) {
    commands.push_back({"AUTH", address.user, address.password});
  } else if (!address.password.empty()) {
    commands.push_back({"AUTH", address.password});
  }
  if (address.database != 0) commands.push_back({"SELECT", database});
  for (const RedisCommand& command : commands) {
    absl::StatusOr<RedisReply> reply = Call(command, deadline);
    if (!reply.ok()) return reply.status();
    if ((*reply)->type != REDIS_REPLY_ERROR) continue;
    const absl::Status refused = StatusFromRedisError(RedisBytes(**reply));
    // Someone has to put it right, whatever Redis says against a password or a database.
    return absl::IsInternal(refused) ? absl::FailedPreconditionError(refused.message()) : refused;
  }
  return absl::OkStatus();
}

}  // namespace batchplan
