// Listens to a channel of a Redis, on a thread of its own, for as long as it lives.
//
//   RedisSubscriber subscriber(address, "news", {}, [](std::string_view message) { ... });
//   subscriber.WaitUntilSubscribed(deadline);
//
// A connection that is refused or lost is opened again, after a wait that doubles from 50 ms to
// 2 s; what is published meanwhile is not heard. A connection over which nothing came for a while
// is tried with a PING, so that one whose other end has vanished is noticed. One on which memory
// ran out, in on_message too, counts as lost.

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
  // How long a connection may be silent before it is tried.
  absl::Duration silence = absl::Seconds(10);
  // Told the reason when the channel is not heard any more, or not at first, and ok when it is
  // heard again; on the subscriber's thread, which waits for it. For a log line; null: nobody.
  std::function<void(const absl::Status&)> on_change = nullptr;
};

class RedisSubscriber {
 public:
  // `on_message` is called on the subscriber's thread, with no lock held. std::system_error if
  // there is no thread or descriptor to be had.
  RedisSubscriber(RedisAddress address, std::string channel, RedisSubscriberOptions options,
                  std::function<void(std::string_view)> on_message);

  // Waits for a call of on_message that is under way and, at most, for a name to be looked up.
  ~RedisSubscriber();

  RedisSubscriber(const RedisSubscriber&) = delete;
  RedisSubscriber& operator=(const RedisSubscriber&) = delete;

  // Whether what is published from now on is heard; false at the deadline, or as soon as the first
  // attempt has failed.
  bool WaitUntilSubscribed(Instant deadline);

 private:
  // Until it is stopped or the connection fails; the reason.
  absl::Status Listen();
  // The same, where memory that runs out is a failure of the connection.
  absl::Status ListenWithinMemory();
  void Work();
  // `why` where it is not.
  void SetSubscribed(bool subscribed, const absl::Status& why);
  // Sleeps, unless stopped; false if so.
  bool Pause(absl::Duration duration) const;

  const RedisAddress address_;
  const std::string channel_;
  const RedisSubscriberOptions options_;
  const std::function<void(std::string_view)> on_message_;
  // An eventfd that says: stop.
  const int stop_;

  Mutex mutex_;
  std::condition_variable_any changed_;
  bool tried_ ABSL_GUARDED_BY(mutex_) = false;
  bool subscribed_ ABSL_GUARDED_BY(mutex_) = false;

  // The thread's own: whether on_change was told of a failure last.
  bool told_of_failure_ = false;
  std::thread thread_;
};

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_STORE_REDIS_REDIS_SUBSCRIBER_H_
