// One connection to a Redis: sends commands and receives replies, each by a deadline, and explains
// errors.
//
//   absl::StatusOr<std::unique_ptr<RedisConnection>> connection =
//       RedisConnection::Open(address, deadline);
//   absl::StatusOr<RedisReply> reply = (*connection)->Call({"HGET", key, "terms"}, deadline);
//
// hiredis does the protocol and OpenSSL the TLS (redis_tls.h), but the waiting is done here: so a
// deadline holds for a whole reply and not for each packet, another thread can end a wait, and a
// lost Redis raises no SIGPIPE. Only the look-up of a host's name is up to the resolver's limits.
// Callers that send or receive megabytes add their TransferTime to the deadline.
//
// Errors: Unavailable if the connection is refused or lost, DeadlineExceeded, Cancelled by `wake`,
// FailedPrecondition for mistakes with TLS, Internal for bytes that are no reply. Messages give
// only the reason. After any error the connection can't be used. Not thread-safe.

#ifndef BATCHPLAN_SERVER_STORE_REDIS_REDIS_CONNECTION_H_
#define BATCHPLAN_SERVER_STORE_REDIS_REDIS_CONNECTION_H_

#include <hiredis/hiredis.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/base/clock.h"
#include "server/store/redis/redis_address.h"
#include "server/store/redis/redis_tls.h"

namespace batchplan {

// A command and its arguments, which may have any bytes.
using RedisCommand = std::vector<std::string_view>;

// The slowest transfer that does not count as a failure: 64 Mb/s, a fifteenth of what a link of 1
// Gb/s carries. The rest is for other traffic and for the work of Redis.
inline constexpr int64_t kSlowestBytesPerSecond = 8'000'000;

// How long the transfer of `bytes` may last at that rate.
Instant::duration TransferTime(size_t bytes);

// A reply of Redis as hiredis parses it. Null is no reply.
struct FreeRedisReply {
  void operator()(redisReply* reply) const { freeReplyObject(reply); }
};
using RedisReply = std::unique_ptr<redisReply, FreeRedisReply>;

// The bytes of a string, status or error; empty for other types. Valid as long as the reply.
inline std::string_view RedisBytes(const redisReply& reply) {
  const bool has_bytes = reply.type == REDIS_REPLY_STRING || reply.type == REDIS_REPLY_STATUS ||
                         reply.type == REDIS_REPLY_ERROR;
  return has_bytes ? std::string_view(reply.str, reply.len) : std::string_view();
}

// The value of a string; nothing for null and other types.
inline std::optional<std::string> RedisString(const redisReply& reply) {
  if (reply.type != REDIS_REPLY_STRING) return std::nullopt;
  return std::string(reply.str, reply.len);
}

// The elements of an array; empty for other types.
inline std::span<redisReply* const> RedisElements(const redisReply& reply) {
  if (reply.type != REDIS_REPLY_ARRAY) return {};
  return {reply.element, reply.elements};
}

// The error reply `text` as a status, with the text cut to a message's length:
//   ResourceExhausted    there is no memory left
//   Unavailable          what passes by itself: loading, fail-over, a busy script, too many clients
//   FailedPrecondition   what a person has to put right: password, rights, protected mode, cluster.
//                        Clients retry Unavailable and would hide the reason until they give up
//   Internal             everything else; a script or a key is not what it should be
// An error within a script has its own code, even if an older Redis wraps it.
absl::Status StatusFromRedisError(std::string_view text);

// Whether the error reply `text` comes from a Redis Cluster, which the stores do not support.
bool IsOfRedisCluster(std::string_view text);

// Turns `status`, of a connection or an error reply, into one for callers of the store: with the
// store's name, what depends on it and what to do. DeadlineExceeded becomes Unavailable.
absl::Status ExplainRedisFailure(const std::string& redacted_url, const absl::Status& status);

class RedisConnection {
 public:
  // Connects to a host or a socket, authenticates, and selects the database. FailedPrecondition if
  // Redis refuses one of these; Unavailable while it loads. When the descriptor `wake` becomes
  // readable, this and all later waits end; -1 for none.
  static absl::StatusOr<std::unique_ptr<RedisConnection>> Open(const RedisAddress& address,
                                                               Instant deadline, int wake = -1);

  RedisConnection(const RedisConnection&) = delete;
  RedisConnection& operator=(const RedisConnection&) = delete;

  // Send, then Receive.
  absl::StatusOr<RedisReply> Call(const RedisCommand& command, Instant deadline,
                                  Instant::duration silence = {});

  absl::Status Send(const RedisCommand& command, Instant deadline);

  // The next reply, which is never null and may be an error reply. With `silence`, the deadline is
  // extended by the TransferTime of what has come, unless a pause within the reply is longer than
  // `silence`.
  absl::StatusOr<RedisReply> Receive(Instant deadline, Instant::duration silence = {});

 private:
  struct FreeContext {
    void operator()(redisContext* context) const { redisFree(context); }
  };

  RedisConnection(std::unique_ptr<redisContext, FreeContext> context, int wake);

  // Waits until the connection is ready for poll's `events`.
  absl::Status WaitFor(short events, Instant deadline) const;
  absl::Status FinishConnect(const RedisAddress& address, Instant deadline);
  absl::Status BeginTls(const RedisAddress& address, Instant deadline);
  absl::Status Enter(const RedisAddress& address, Instant deadline);

  // Bytes as they travel: encrypted if there is TLS. Received bytes are at the front of buffer_.
  absl::Status SendBytes(std::string_view bytes, Instant deadline);
  absl::StatusOr<size_t> ReceiveBytes(Instant deadline);
  // Like ReceiveBytes, without TLS.
  absl::StatusOr<size_t> ReceivePlain(Instant deadline);

  std::unique_ptr<redisContext, FreeContext> context_;
  // Null without TLS.
  std::unique_ptr<RedisTls> tls_;
  int wake_;
  std::vector<char> buffer_;
};

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_STORE_REDIS_REDIS_CONNECTION_H_
