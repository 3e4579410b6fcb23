// A Redis as the stores use it: commands and scripts, over a few connections that are kept.
//
//   RedisClient client(address, {});
//   absl::StatusOr<RedisReply> reply = client.Call({"HMGET", key, "state", "version"});
//   static const RedisScript script("return redis.call('HGET', KEYS[1], ARGV[1])");
//   reply = client.Run(script, {key}, {"state"});
//
// A call takes an idle connection or opens one, so that there are as many as calls at the same
// time, and leaves it for the next. A kept connection may have been lost since, by a restart or a
// fail-over of Redis: then, and only then, the call is made a second time, on a new connection. So
// every command given must be one that can be repeated.
//
// A call takes at most connect_timeout and command_timeout together, not counting the look-up of a
// host's name and the TransferTime of what is sent and received: a part of 64 MiB may take 8
// seconds more than the second that a small command has. A reply that has begun and stops for
// command_timeout is given up. After a failure, calls fail at once for retry_delay, then one at a
// time tries again: a Redis that is away costs one caller the time-outs, and not each of them.
// Nothing is done before the first call; a Redis that is not there yet is found when it is.
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
  // For connecting, authentication included, and for a command and its whole reply, if they are
  // small.
  absl::Duration connect_timeout = absl::Seconds(1);
  absl::Duration command_timeout = absl::Seconds(1);
  // How long calls fail at once after Redis could not be reached.
  absl::Duration retry_delay = absl::Milliseconds(200);
  // Connections kept while nobody uses them.
  size_t max_idle_connections = 16;
  // Told the error when Redis can't be reached any more, and ok when it is reached again; from
  // within calls, which wait for it. For a log line; null: nobody.
  std::function<void(const absl::Status&)> on_change = nullptr;
};

// A Lua script that Redis keeps, by the SHA-1 of its text.
struct RedisScript {
  explicit RedisScript(std::string_view script);

  std::string text;
  std::string sha1;
};

// Keeps calls away from a Redis that does not answer, so that not each of them waits in vain: after
// a failure, calls fail at once for a while, then one call at a time tries.
//
//   if (absl::Status status = breaker.Admit(now); !status.ok()) return status;
//   ...
//   answered ? breaker.Succeeded() : breaker.Failed(now, why);    // always one of them
//
// Thread-safe, a lock of a few instructions.
class RedisBreaker {
 public:
  explicit RedisBreaker(Instant::duration retry_delay) : retry_delay_(retry_delay) {}

  // Ok if the caller may go on; otherwise the last failure.
  absl::Status Admit(Instant now);

  // Each returns whether that is news: the first success after a failure, the first failure.
  bool Succeeded();
  bool Failed(Instant now, const absl::Status& why);

 private:
  const Instant::duration retry_delay_;

  Mutex mutex_;
  // Ok: all may go on.
  absl::Status failure_ ABSL_GUARDED_BY(mutex_);
  Instant retry_at_ ABSL_GUARDED_BY(mutex_);
  bool trying_ ABSL_GUARDED_BY(mutex_) = false;
};

class RedisClient {
 public:
  RedisClient(RedisAddress address, RedisClientOptions options);

  RedisClient(const RedisClient&) = delete;
  RedisClient& operator=(const RedisClient&) = delete;

  // Never null, and never an error reply: these come as a status.
  absl::StatusOr<RedisReply> Call(const RedisCommand& command);

  // Runs `script` on these keys, handing it over where Redis does not have it.
  absl::StatusOr<RedisReply> Run(const RedisScript& script,
                                 const std::vector<std::string_view>& keys,
                                 const std::vector<std::string_view>& arguments);

  // For a reply of another shape than the command has.
  absl::Status OddReply(std::string_view command) const;

  const RedisAddress& address() const { return address_; }

 private:
  // The reply, error replies among them, to a call that the breaker knows of.
  absl::StatusOr<RedisReply> Exchange(const RedisCommand& command);
  // The same without the breaker.
  absl::StatusOr<RedisReply> Attempt(const RedisCommand& command, Instant deadline);
  absl::StatusOr<std::unique_ptr<RedisConnection>> Open(Instant deadline) const;

  // Null if none is kept.
  std::unique_ptr<RedisConnection> TakeIdle();
  void Keep(std::unique_ptr<RedisConnection> connection);
  void CloseIdle();

  const RedisAddress address_;
  const RedisClientOptions options_;
  RedisBreaker breaker_;

  Mutex mutex_;
  // The last one was used last.
  std::vector<std::unique_ptr<RedisConnection>> idle_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_STORE_REDIS_REDIS_CLIENT_H_
