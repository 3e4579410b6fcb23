// One connection to a Redis: commands out, replies in, each by a deadline; and what its errors
// mean.
//
//   absl::StatusOr<std::unique_ptr<RedisConnection>> connection =
//       RedisConnection::Open(address, deadline);
//   absl::StatusOr<RedisReply> reply = (*connection)->Call({"HGET", key, "terms"}, deadline);
//
// hiredis speaks the protocol, OpenSSL its TLS (redis_tls.h); the waiting is ours, so that a
// deadline holds for the whole of a reply and not for each of its packets, so that another thread
// can end it, and so that a Redis that has gone raises no SIGPIPE. Only the look-up of a host's
// name waits by the resolver's own limits. Who sends megabytes, or asks for them, allows for their
// TransferTime.
//
// Errors: Unavailable if the connection is refused or lost, DeadlineExceeded, Cancelled by `wake`,
// FailedPrecondition for what is wrong with TLS, Internal for bytes that are no reply; their
// messages give the reason alone. After any of them the connection is of no more use. Not
// thread-safe.

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

// A command and its arguments, of any bytes.
using RedisCommand = std::vector<std::string_view>;

// The slowest way to a Redis that is not taken for one that has failed: 64 Mb/s, a fifteenth of
// what a link of 1 Gb/s carries, for what shares it and for what Redis does with the bytes.
inline constexpr int64_t kSlowestBytesPerSecond = 8'000'000;

// What so many bytes may take on such a way.
Instant::duration TransferTime(size_t bytes);

// What a Redis answers: hiredis' tree, owned. A null pointer is no reply.
struct FreeRedisReply {
  void operator()(redisReply* reply) const { freeReplyObject(reply); }
};
using RedisReply = std::unique_ptr<redisReply, FreeRedisReply>;

// The bytes of a string, status or error; empty for everything else. Good as long as the reply.
inline std::string_view RedisBytes(const redisReply& reply) {
  const bool has_bytes = reply.type == REDIS_REPLY_STRING || reply.type == REDIS_REPLY_STATUS ||
                         reply.type == REDIS_REPLY_ERROR;
  return has_bytes ? std::string_view(reply.str, reply.len) : std::string_view();
}

// A string; nothing for a null and everything else.
inline std::optional<std::string> RedisString(const redisReply& reply) {
  if (reply.type != REDIS_REPLY_STRING) return std::nullopt;
  return std::string(reply.str, reply.len);
}

// The elements of an array; none for everything else.
inline std::span<redisReply* const> RedisElements(const redisReply& reply) {
  if (reply.type != REDIS_REPLY_ARRAY) return {};
  return {reply.element, reply.elements};
}

// The error reply `text` as a status with that text, cut to a message's length:
//   ResourceExhausted    there is no memory left
//   Unavailable          what passes by itself: loading, fail-over, a busy script, too many clients
//   FailedPrecondition   what a person has to put right: password, rights, protected mode, cluster.
//                        Clients retry Unavailable and would hide the reason until they give up
//   Internal             everything else; a script or a key is not what it should be
// An error from within a script counts as what it is, also where an older Redis wraps it.
absl::Status StatusFromRedisError(std::string_view text);

// Whether the error reply `text` is of a Redis Cluster, which the stores do not speak to.
bool IsOfRedisCluster(std::string_view text);

// `status`, of a connection or of an error reply, as callers of the store get it: with the store's
// name, what depends on it and what to do. DeadlineExceeded becomes Unavailable.
absl::Status ExplainRedisFailure(const std::string& redacted_url, const absl::Status& status);

class RedisConnection {
 public:
  // Connects to an address with a host or a socket, authenticates and selects the database.
  // FailedPrecondition if Redis refuses one of these; Unavailable while it loads. `wake`, a
  // descriptor, ends this and every later wait once there is something to read from it; -1: none.
  static absl::StatusOr<std::unique_ptr<RedisConnection>> Open(const RedisAddress& address,
                                                               Instant deadline, int wake = -1);

  RedisConnection(const RedisConnection&) = delete;
  RedisConnection& operator=(const RedisConnection&) = delete;

  // Send, then Receive.
  absl::StatusOr<RedisReply> Call(const RedisCommand& command, Instant deadline,
                                  Instant::duration silence = {});

  absl::Status Send(const RedisCommand& command, Instant deadline);

  // The next reply, never null; an error reply is a reply. With a `silence`, the deadline moves on
  // by the TransferTime of what comes, for as long as no silence within the reply is longer.
  absl::StatusOr<RedisReply> Receive(Instant deadline, Instant::duration silence = {});

 private:
  struct FreeContext {
    void operator()(redisContext* context) const { redisFree(context); }
  };

  RedisConnection(std::unique_ptr<redisContext, FreeContext> context, int wake);

  // Until the connection is ready for `events`, as poll names them.
  absl::Status WaitFor(short events, Instant deadline) const;
  absl::Status FinishConnect(const RedisAddress& address, Instant deadline);
  absl::Status BeginTls(const RedisAddress& address, Instant deadline);
  absl::Status Enter(const RedisAddress& address, Instant deadline);

  // As they travel, encrypted where there is TLS. Received bytes are the first of buffer_.
  absl::Status SendBytes(std::string_view bytes, Instant deadline);
  absl::StatusOr<size_t> ReceiveBytes(Instant deadline);
  // The same of plain bytes.
  absl::StatusOr<size_t> ReceivePlain(Instant deadline);

  std::unique_ptr<redisContext, FreeContext> context_;
  // Null without TLS.
  std::unique_ptr<RedisTls> tls_;
  int wake_;
  std::vector<char> buffer_;
};

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_STORE_REDIS_REDIS_CONNECTION_H_
