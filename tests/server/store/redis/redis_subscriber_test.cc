#include "server/store/redis/redis_subscriber.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <new>
#include <string>
#include <vector>

#include "tests/server/store/redis/scripted_redis.h"
#include "tests/support/redis_server.h"

namespace batchplan::testing {
namespace {

RedisAddress AddressOf(const RedisServer& redis) { return ParseRedisAddress(redis.url()).value(); }

Instant InAMinute() { return std::chrono::steady_clock::now() + std::chrono::minutes(1); }

class Heard {
 public:
  void Add(std::string_view message) {
    std::lock_guard lock(mutex_);
    messages_.emplace_back(message);
    changed_.notify_all();
  }
  // False after a minute.
  bool Await(const std::string& message) {
    std::unique_lock lock(mutex_);
    return changed_.wait_until(lock, InAMinute(), [this, &message] {
      return std::find(messages_.begin(), messages_.end(), message) != messages_.end();
    });
  }
  std::vector<std::string> messages() {
    std::lock_guard lock(mutex_);
    return messages_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::string> messages_;
};

// Publishes until a subscriber hears it: there is no other sign that it is back.
void PublishUntilHeard(const RedisServer& redis, const std::string& message) {
  const Instant deadline = InAMinute();
  while (redis.Command({"PUBLISH", "news", message}) == "0" &&
         std::chrono::steady_clock::now() < deadline) {
  }
}

TEST(RedisSubscriberTest, HearsItsChannelInOrderAndBytesAsTheyAre) {
  RedisServer redis;
  Heard heard;
  RedisSubscriber subscriber(AddressOf(redis), "news", {},
                             [&heard](std::string_view message) { heard.Add(message); });
  ASSERT_TRUE(subscriber.WaitUntilSubscribed(InAMinute()));
  redis.Command({"PUBLISH", "other news", "not this"});
  const std::string bytes("\0\r\n\xff", 4);
  redis.Command({"PUBLISH", "news", bytes});
  redis.Command({"PUBLISH", "news", ""});
  redis.Command({"PUBLISH", "news", std::string(1 << 20, 'x')});
  redis.Command({"PUBLISH", "news", "last"});
  ASSERT_TRUE(heard.Await("last"));
  EXPECT_EQ(heard.messages(),
            (std::vector<std::string>{bytes, "", std::string(1 << 20, 'x'), "last"}));
}

TEST(RedisSubscriberTest, FindsARedisThatComesLater) {
  RedisServer redis;
  redis.Kill();
  Heard heard;
  RedisSubscriber subscriber(AddressOf(redis), "news", {},
                             [&heard](std::string_view message) { heard.Add(message); });
  EXPECT_FALSE(subscriber.WaitUntilSubscribed(InAMinute()));
  redis.Start();
  PublishUntilHeard(redis, "late");
  EXPECT_TRUE(heard.Await("late"));
}

TEST(RedisSubscriberTest, TriesASilentConnectionAndLeavesOneThatStaysSilent) {
  const std::string subscribed = "*3\r\n$9\r\nsubscribe\r\n$4\r\nnews\r\n:1\r\n";
  ScriptedRedis redis({[&subscribed](RedisPeer& peer) {
                         peer.ReadUntil("SUBSCRIBE");
                         peer.Write(subscribed);
                         for (int i = 0; i < 3; ++i) {
                           peer.ReadUntil("PING");
                           peer.Write("*2\r\n$4\r\npong\r\n$0\r\n\r\n");
                         }
                         peer.ReadUntil("PING");
                         peer.AwaitClose();
                       },
                       [&subscribed](RedisPeer& peer) {
                         peer.ReadUntil("SUBSCRIBE");
                         peer.Write(subscribed);
                         peer.Write("*3\r\n$7\r\nmessage\r\n$4\r\nnews\r\n$2\r\nhi\r\n");
                         peer.AwaitClose();
                       }});
  RedisAddress address;
  address.host = "127.0.0.1";
  address.port = static_cast<uint16_t>(redis.port());
  Heard heard;
  RedisSubscriber subscriber(
      address, "news", {.timeout = absl::Milliseconds(100), .silence = absl::Milliseconds(20)},
      [&heard](std::string_view message) { heard.Add(message); });
  EXPECT_TRUE(heard.Await("hi"));
}

TEST(RedisSubscriberTest, TellsWhenItHearsNothingAndWhenItHearsAgain) {
  RedisServer redis;
  std::mutex mutex;
  std::vector<absl::Status> changes;
  Heard heard;
  RedisSubscriber subscriber(AddressOf(redis), "news",
                             {.on_change =
                                  [&](const absl::Status& status) {
                                    std::lock_guard lock(mutex);
                                    changes.push_back(status);
                                  }},
                             [&heard](std::string_view message) { heard.Add(message); });
  ASSERT_TRUE(subscriber.WaitUntilSubscribed(InAMinute()));
  redis.Kill();
  redis.Start();
  PublishUntilHeard(redis, "again");
  EXPECT_TRUE(heard.Await("again"));
  std::lock_guard lock(mutex);
  ASSERT_EQ(changes.size(), 2);
  EXPECT_EQ(changes[0].code(), absl::StatusCode::kUnavailable);
  EXPECT_NE(std::string(changes[0].message()).find(redis.url()), std::string::npos);
  EXPECT_EQ(changes[1], absl::OkStatus());
}

TEST(RedisSubscriberTest, MemoryThatRunsOutCostsTheConnectionAndNoMore) {
  RedisServer redis;
  Heard heard;
  RedisSubscriber subscriber(AddressOf(redis), "news", {}, [&heard](std::string_view message) {
    heard.Add(message);
    if (message == "large") throw std::bad_alloc();
  });
  ASSERT_TRUE(subscriber.WaitUntilSubscribed(InAMinute()));
  redis.Command({"PUBLISH", "news", "large"});
  ASSERT_TRUE(heard.Await("large"));
  // The first messages may go into the lost connection, so it publishes until one is heard.
  const Instant deadline = InAMinute();
  while (heard.messages().back() != "small" && std::chrono::steady_clock::now() < deadline) {
    redis.Command({"PUBLISH", "news", "small"});
  }
  EXPECT_TRUE(heard.Await("small"));
}

TEST(RedisSubscriberTest, EndsAtOnceWhateverItWaitsFor) {
  RedisServer redis;
  const Instant start = std::chrono::steady_clock::now();
  const RedisSubscriberOptions patient = {.timeout = absl::Hours(1), .silence = absl::Hours(1)};
  {
    RedisSubscriber subscribed(AddressOf(redis), "news", patient, [](std::string_view) {});
    ASSERT_TRUE(subscribed.WaitUntilSubscribed(InAMinute()));
  }
  redis.Freeze();
  {
    RedisSubscriber waiting(AddressOf(redis), "news", patient, [](std::string_view) {});
  }
  redis.Thaw();
  redis.Kill();
  {
    RedisSubscriber refused(AddressOf(redis), "news", patient, [](std::string_view) {});
  }
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::minutes(30));
}

}  // namespace
}  // namespace batchplan::testing
