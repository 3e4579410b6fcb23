// A Redis as the stores use it: commands and scripts over a few connections that are kept open.
//
//   RedisClient client(address, {});
//   absl::StatusOr<RedisReply> reply = client.Call({"HMGET", key, "state", "version"});
//   static const RedisScript script("return redis.call('HGET', KEYS[1], ARGV[1])");
//   reply = client.Run(script, {key}, {"state"});
//
// A call uses an idle connection or opens one, and keeps it for the next call. So there are as many
// connections as concurrent calls. A restart or fail-over of Redis may have ended a kept
// connection. In that case alone, the call is repeated on a new connection; so every command must
// be safe to repeat.
//
// A call lasts at most connect_timeout + command_timeout, plus the look-up of the host's name and
// the TransferTime of what is sent and received: for a part of 64 MiB, up to 8 seconds more. A
// reply that has begun and then stops for command_timeout is given up. After a failure, calls fail
// at once for retry_delay; then one call at a time tries again. So while Redis is away, only one
// caller waits for the time-outs. Nothing happens before the first call, so that Redis may start
// later.
//
// Errors are those of ExplainRedisFailure, with the store's name and what to do. Thread-safe.

#ifndef BATCHPLAN_SERVER_STORE_REDIS_REDIS_CLIENT_H_
#define BATCHPLAN_SERVER_STORE_REDIS_REDIS_CLIENT_H_

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/base/clock.h"
#include "server/base/mutex.h"
#include "server/store/redis/redis_address.h"
#include "server/store/redis/redis_connection.h"

namespace batchplan {

struct RedisClientOptions {
  // For connecting and authentication; and for a command and its whole reply, if both are small.
  absl::Duration connect_timeout = absl::Seconds(1);
  absl::Duration command_timeout = absl::Seconds(1);
  // How long calls fail at once after Redis could not be reached.
  absl::Duration retry_delay = absl::Milliseconds(200);
  // How many unused connections are kept.
  size_t max_idle_connections = 16;
  // Called with the error when Redis can't be reached any more, and with OK when it can again. The
  // call that found out waits for it. Meant for a log line; may be null.
  std::function<void(const absl::Status&)> on_change = nullptr;
};

// A Lua script. Redis keeps it under the SHA-1 of its text.
struct RedisScript {
  explicit RedisScript(std::string_view script);

  std::string text;
  std::string sha1;
};

// Spares calls the wait for a Redis that does not answer. After a failure, calls fail at once for a
// while; then one call at a time tries again.
//
//   if (absl::Status status = breaker.Admit(now); !status.ok()) return status;
//   ...
//   answered ? breaker.Succeeded() : breaker.Failed(now, why);    // always one of them
//
// Thread-safe; the lock is held for a few instructions.
class RedisBreaker {
 public:
  explicit RedisBreaker(Instant::duration retry_delay) : retry_delay_(retry_delay) {}

  // OK if the caller may go on; otherwise the last failure.
  absl::Status Admit(Instant now);

  // Both return whether the state changed: on the first success after a failure, and the first
  // failure.
  bool Succeeded();
  bool Failed(Instant now, const absl::Status& why);

 private:
  const Instant::duration retry_delay_;

  Mutex mutex_;
  // OK if all calls may go on.
  absl::Status failure_ ABSL_GUARDED_BY(mutex_);
  Instant retry_at_ ABSL_GUARDED_BY(mutex_);
  bool trying_ ABSL_GUARDED_BY(mutex_) = false;
};

class RedisClient {
 public:
  RedisClient(RedisAddress address, RedisClientOptions options);

  RedisClient(const RedisClient&) = delete;
  RedisClient& operator=(const RedisClient&) = delete;

  // The reply is never null. An error reply is returned as a status.
  absl::StatusOr<RedisReply> Call(const RedisCommand& command);

  // Runs `script` with these keys; sends its text if Redis does not have it.
  absl::StatusOr<RedisReply> Run(const RedisScript& script,
                                 const std::vector<std::string_view>& keys,
                                 const std::vector<std::string_view>& arguments);

  // The error for a reply whose shape does not fit the command.
  absl::Status OddReply(std::string_view command) const;

  const RedisAddress& address() const { return address_; }

 private:
  // Makes the call through the breaker. Returns error replies as replies.
  absl::StatusOr<RedisReply> Exchange(const RedisCommand& command);
  // Like Exchange, without the breaker.
  absl::StatusOr<RedisReply> Attempt(const RedisCommand& command, Instant deadline);
  absl::StatusOr<std::unique_ptr<RedisConnection>> Open(Instant deadline) const;

  // Null if there is none.
  std::unique_ptr<RedisConnection> TakeIdle();
  void Keep(std::unique_ptr<RedisConnection> connection);
  void CloseIdle();

  const RedisAddress address_;
  const RedisClientOptions options_;
  RedisBreaker breaker_;

  Mutex mutex_;
  // The most recently used connection is the last one.
  std::vector<std::unique_ptr<RedisConnection>> idle_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_STORE_REDIS_REDIS_CLIENT_H_
