#include "server/store/redis/redis_subscriber.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <memory>
#include <new>
#include <span>
#include <system_error>
#include <utility>

#include "absl/status/statusor.h"
#include "server/store/redis/redis_sentinel.h"

namespace batchplan {
namespace {

constexpr absl::Duration kFirstWait = absl::Milliseconds(50);
constexpr absl::Duration kLongestWait = absl::Seconds(2);

Instant After(absl::Duration duration) {
  return std::chrono::steady_clock::now() + absl::ToChronoNanoseconds(duration);
}

int NewEvent() {
  const int event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (event < 0) throw std::system_error(errno, std::generic_category(), "eventfd");
  return event;
}

}  // namespace

RedisSubscriber::RedisSubscriber(RedisAddress address, std::string channel,
                                 RedisSubscriberOptions options,
                                 std::function<void(std::string_view)> on_message)
    : address_(std::move(address)),
      channel_(std::move(channel)),
      options_(std::move(options)),
      on_message_(std::move(on_message)),
      stop_(NewEvent()) {
  try {
    thread_ = std::thread([this] { Work(); });
  } catch (...) {
    close(stop_);
    throw;
  }
}

RedisSubscriber::~RedisSubscriber() {
  const uint64_t one = 1;
  // Does not fail, since the counter is 0.
  [[maybe_unused]] const ssize_t written = write(stop_, &one, sizeof(one));
  thread_.join();
  close(stop_);
}

bool RedisSubscriber::WaitUntilSubscribed(Instant deadline) {
  MutexLock lock(mutex_);
  while (!tried_ && changed_.wait_until(lock, deadline) != std::cv_status::timeout) {
  }
  return subscribed_;
}

void RedisSubscriber::Work() {
  absl::Duration wait = kFirstWait;
  for (;;) {
    const absl::Status ended = ListenWithinMemory();
    if (absl::IsCancelled(ended)) return;
    bool was_subscribed = false;
    {
      MutexLock lock(mutex_);
      was_subscribed = subscribed_;
    }
    SetSubscribed(false, ended);
    wait = was_subscribed ? kFirstWait : std::min(2 * wait, kLongestWait);
    if (!Pause(wait)) return;
  }
}

absl::Status RedisSubscriber::ListenWithinMemory() {
  try {
    return Listen();
  } catch (const std::bad_alloc&) {
    return absl::UnavailableError("memory ran out");
  }
}

absl::Status RedisSubscriber::Listen() {
  absl::StatusOr<std::unique_ptr<RedisConnection>> opened =
      OpenRedis(address_, After(options_.timeout), stop_);
  if (!opened.ok()) return opened.status();
  RedisConnection& connection = **opened;
  if (absl::Status status = connection.Send({"SUBSCRIBE", channel_}, After(options_.timeout));
      !status.ok()) {
    return status;
  }
  // Messages are arrays whose first element is "subscribe", "message" or "pong".
  bool expecting = true;
  for (;;) {
    absl::StatusOr<RedisReply> reply =
        connection.Receive(After(expecting ? options_.timeout : options_.silence));
    if (absl::IsDeadlineExceeded(reply.status()) && !expecting) {
      // The connection keeps what it has received of the next reply.
      expecting = true;
      if (absl::Status status = connection.Send({"PING"}, After(options_.timeout)); !status.ok()) {
        return status;
      }
      continue;
    }
    if (!reply.ok()) return reply.status();
    expecting = false;
    if ((*reply)->type == REDIS_REPLY_ERROR) return StatusFromRedisError(RedisBytes(**reply));
    const std::span<redisReply* const> elements = RedisElements(**reply);
    if (elements.empty()) continue;
    const std::string_view kind = RedisBytes(*elements[0]);
    if (kind == "subscribe") SetSubscribed(true, absl::OkStatus());
    if (kind == "message" && elements.size() == 3) on_message_(RedisBytes(*elements[2]));
  }
}

void RedisSubscriber::SetSubscribed(bool subscribed, const absl::Status& why) {
  {
    MutexLock lock(mutex_);
    tried_ = true;
    subscribed_ = subscribed;
  }
  changed_.notify_all();
  const bool news = told_of_failure_ == subscribed;
  told_of_failure_ = !subscribed;
  if (news && options_.on_change) {
    options_.on_change(subscribed ? why : ExplainRedisFailure(address_.Redacted(), why));
  }
}

bool RedisSubscriber::Pause(absl::Duration duration) const {
  pollfd stop = {.fd = stop_, .events = POLLIN, .revents = 0};
  // A signal may shorten the pause, which does no harm.
  return poll(&stop, 1, static_cast<int>(absl::ToInt64Milliseconds(duration))) <= 0;
}

}  // namespace batchplan
