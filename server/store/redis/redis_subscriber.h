// Listens to a channel of a Redis on its own thread, as long as it lives.
//
//   RedisSubscriber subscriber(address, "news", {}, [](std::string_view message) { ... });
//   subscriber.WaitUntilSubscribed(deadline);
//
// After a refused or lost connection it tries again, with waits that double from 50 ms to 2 s. What
// is published meanwhile is not heard. A connection that was silent for a while is tested by a
// PING, so that a vanished peer is noticed. If memory runs out, in on_message too, the connection
// counts as lost.

#ifndef BATCHPLAN_SERVER_STORE_REDIS_REDIS_SUBSCRIBER_H_
#define BATCHPLAN_SERVER_STORE_REDIS_REDIS_SUBSCRIBER_H_

#include <condition_variable>
#include <functional>
#include <string>
#include <string_view>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "server/base/clock.h"
#include "server/base/mutex.h"
#include "server/store/redis/redis_address.h"
#include "server/store/redis/redis_connection.h"

namespace batchplan {

struct RedisSubscriberOptions {
  // For connecting, and for the answer to a PING.
  absl::Duration timeout = absl::Seconds(1);
  // How long a connection may be silent before a PING.
  absl::Duration silence = absl::Seconds(10);
  // Called with the reason when the channel is no longer heard, or at the start can't be, and with
  // OK when it is heard again. The subscriber's thread waits for it. Meant for a log line; may be
  // null.
  std::function<void(const absl::Status&)> on_change = nullptr;
};

class RedisSubscriber {
 public:
  // Calls `on_message` on the subscriber's thread, without holding a lock. std::system_error if no
  // thread or descriptor can be made.
  RedisSubscriber(RedisAddress address, std::string channel, RedisSubscriberOptions options,
                  std::function<void(std::string_view)> on_message);

  // Waits for a running call of on_message, and for at most one look-up of a name.
  ~RedisSubscriber();

  RedisSubscriber(const RedisSubscriber&) = delete;
  RedisSubscriber& operator=(const RedisSubscriber&) = delete;

  // Whether the channel is now heard. False at the deadline, and as soon as the first attempt
  // fails.
  bool WaitUntilSubscribed(Instant deadline);

 private:
  // Listens until stopped or the connection fails; returns the reason.
  absl::Status Listen();
  // Like Listen, but running out of memory counts as a failed connection.
  absl::Status ListenWithinMemory();
  void Work();
  // `why` says why it is not subscribed.
  void SetSubscribed(bool subscribed, const absl::Status& why);
  // Sleeps; returns false early if stopped.
  bool Pause(absl::Duration duration) const;

  const RedisAddress address_;
  const std::string channel_;
  const RedisSubscriberOptions options_;
  const std::function<void(std::string_view)> on_message_;
  // An eventfd that stops the thread.
  const int stop_;

  Mutex mutex_;
  std::condition_variable_any changed_;
  bool tried_ ABSL_GUARDED_BY(mutex_) = false;
  bool subscribed_ ABSL_GUARDED_BY(mutex_) = false;

  // Used by the thread alone: whether on_change was last called with a failure.
  bool told_of_failure_ = false;
  std::thread thread_;
};

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_STORE_REDIS_REDIS_SUBSCRIBER_H_
