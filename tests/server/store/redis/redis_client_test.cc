#include "server/store/redis/redis_client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <iterator>
#include <latch>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/server/store/redis/scripted_redis.h"
#include "tests/support/redis_server.h"

namespace batchplan::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

using std::chrono::milliseconds;

// Patient on a busy machine, and without a pause after a failure.
const RedisClientOptions kPatient = {.connect_timeout = absl::Seconds(20),
                                     .command_timeout = absl::Seconds(20),
                                     .retry_delay = absl::ZeroDuration()};

RedisAddress AddressOf(const RedisServer& redis) { return ParseRedisAddress(redis.url()).value(); }

RedisAddress AddressOf(const ScriptedRedis& redis) {
  RedisAddress address;
  address.host = "127.0.0.1";
  address.port = static_cast<uint16_t>(redis.port());
  return address;
}

size_t OpenDescriptors() {
  return static_cast<size_t>(std::distance(std::filesystem::directory_iterator("/proc/self/fd"),
                                           std::filesystem::directory_iterator()));
}

// The value of KEY:VALUE in a section of INFO.
std::string Info(const RedisServer& redis, const std::string& section, const std::string& key) {
  const std::string info = redis.Command({"INFO", section});
  const size_t begin = info.find(key + ":");
  if (begin == std::string::npos) return "";
  const size_t value = begin + key.size() + 1;
  return info.substr(value, info.find('\r', value) - value);
}

TEST(RedisClientTest, AScriptIsHandedOverOnceAndAgainWhenRedisForgetsIt) {
  RedisServer redis;
  RedisClient client(AddressOf(redis), kPatient);
  const RedisScript script("return {KEYS[1], ARGV[1]}");
  for (int round = 0; round < 2; ++round) {
    for (int i = 0; i < 3; ++i) {
      const RedisReply reply = client.Run(script, {"key"}, {"argument"}).value();
      ASSERT_EQ(RedisElements(*reply).size(), 2);
      EXPECT_EQ(RedisBytes(*RedisElements(*reply)[0]), "key");
      EXPECT_EQ(RedisBytes(*RedisElements(*reply)[1]), "argument");
    }
    EXPECT_THAT(Info(redis, "commandstats", "cmdstat_eval"), HasSubstr("calls=1,"));
    EXPECT_EQ(redis.Command({"SCRIPT", "FLUSH"}), "OK");
    EXPECT_EQ(redis.Command({"CONFIG", "RESETSTAT"}), "OK");
  }
}

TEST(RedisClientTest, ASocketServesAsWell) {
  RedisServer redis;
  RedisClient client(ParseRedisAddress(redis.socket_url() + "?db=3").value(), kPatient);
  ASSERT_TRUE(client.Call({"SET", "key", "value"}).ok());
  EXPECT_EQ(RedisBytes(**client.Call({"GET", "key"})), "value");
  EXPECT_EQ(redis.Command({"GET", "key"}), "(nil)");
}

TEST(RedisClientTest, ErrorRepliesComeAsStatusesAndKeepTheConnection) {
  RedisServer redis;
  RedisClient client(AddressOf(redis), kPatient);
  ASSERT_TRUE(client.Call({"SET", "key", "value"}).ok());
  for (int i = 0; i < 10; ++i) {
    const absl::Status status = client.Call({"HGET", "key", "field"}).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
    EXPECT_THAT(std::string(status.message()), HasSubstr("WRONGTYPE"));
    EXPECT_THAT(std::string(status.message()), HasSubstr(redis.url()));
    const RedisScript broken("return redis.call('HGET', KEYS[1], 'field')");
    EXPECT_EQ(client.Run(broken, {"key"}, {}).status().code(), absl::StatusCode::kInternal);
  }
  // The client's connection, and that of this command.
  EXPECT_EQ(Info(redis, "clients", "connected_clients"), "2");
}

TEST(RedisClientTest, ANewConnectionThatIsLostIsNotTriedAgain) {
  ScriptedRedis redis({[](RedisPeer& peer) { peer.ReadUntil("PING"); },
                       [](RedisPeer& peer) { peer.ReadUntil("PING"); }});
  RedisClient client(AddressOf(redis), kPatient);
  EXPECT_EQ(client.Call({"PING"}).status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(redis.connections(), 1);
}

TEST(RedisClientTest, ACommandThatTimesOutIsNotSentTwiceAndItsLateReplyIsNobodys) {
  std::latch late(1);
  ScriptedRedis redis({[&late](RedisPeer& peer) {
                         peer.ReadUntil("first");
                         peer.Write("+first\r\n");
                         peer.ReadUntil("second");
                         late.wait();
                         peer.Write("+second\r\n");
                         peer.AwaitClose();
                       },
                       [](RedisPeer& peer) {
                         peer.ReadUntil("third");
                         peer.Write("+third\r\n");
                         peer.AwaitClose();
                       }});
  RedisClientOptions options = kPatient;
  options.command_timeout = absl::Milliseconds(200);
  RedisClient client(AddressOf(redis), options);
  EXPECT_EQ(RedisBytes(**client.Call({"first"})), "first");
  const absl::Status status = client.Call({"second"}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()), HasSubstr("no answer in time"));
  EXPECT_EQ(redis.connections(), 1);
  late.count_down();
  EXPECT_EQ(RedisBytes(**client.Call({"third"})), "third");
}

// A command of 32 MiB has four seconds more than a small one.
TEST(RedisClientTest, ALargeCommandHasTheTimeThatItsBytesTake) {
  ScriptedRedis redis({[](RedisPeer& peer) {
    peer.ReadUntil("SET");
    std::this_thread::sleep_for(milliseconds(300));
    peer.ReadUntil("the end");
    peer.Write("+OK\r\n");
    peer.AwaitClose();
  }});
  RedisClientOptions options = kPatient;
  options.command_timeout = absl::Milliseconds(100);
  RedisClient client(AddressOf(redis), options);
  std::string large(32 << 20, 'x');
  large += "the end";
  const absl::Status status = client.Call({"SET", "key", large}).status();
  EXPECT_TRUE(status.ok()) << status;
}

TEST(RedisClientTest, ALargeReplyHasTheTimeThatItsBytesTake) {
  ScriptedRedis redis({[](RedisPeer& peer) {
    const std::string third(16 << 20, 'x');
    peer.ReadUntil("GET");
    peer.Write("$" + std::to_string(3 * third.size()) + "\r\n" + third);
    std::this_thread::sleep_for(milliseconds(1200));
    peer.Write(third);
    std::this_thread::sleep_for(milliseconds(1200));
    peer.Write(third + "\r\n");
    peer.AwaitClose();
  }});
  RedisClientOptions options = kPatient;
  options.command_timeout = absl::Seconds(2);
  RedisClient client(AddressOf(redis), options);
  const absl::StatusOr<RedisReply> reply = client.Call({"GET", "key"});
  ASSERT_TRUE(reply.ok()) << reply.status();
  EXPECT_EQ(RedisBytes(**reply).size(), size_t{48} << 20);
}

TEST(RedisClientTest, AReplicaThatWasTheMasterIsLeft) {
  ScriptedRedis redis({[](RedisPeer& peer) {
                         peer.ReadUntil("SET");
                         peer.Write("-READONLY You can't write against a read only replica.\r\n");
                         peer.AwaitClose();
                       },
                       [](RedisPeer& peer) {
                         peer.ReadUntil("SET");
                         peer.Write("+OK\r\n");
                         peer.AwaitClose();
                       }});
  RedisClient client(AddressOf(redis), kPatient);
  EXPECT_EQ(client.Call({"SET", "key", "value"}).status().code(), absl::StatusCode::kUnavailable);
  EXPECT_TRUE(client.Call({"SET", "key", "value"}).ok());
}

TEST(RedisClientTest, AFailureIsRememberedForAWhileAndChangesAreTold) {
  std::vector<absl::StatusCode> changes;
  RedisClientOptions options = kPatient;
  options.retry_delay = absl::Hours(1);
  options.on_change = [&changes](const absl::Status& status) { changes.push_back(status.code()); };
  RedisServer redis;
  RedisClient client(AddressOf(redis), options);
  ASSERT_TRUE(client.Call({"PING"}).ok());
  redis.Kill();
  const absl::Status first = client.Call({"PING"}).status();
  EXPECT_EQ(first.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(first.message()), HasSubstr("Connection refused"));
  // Nobody tries again before the hour is over.
  redis.Start();
  EXPECT_EQ(client.Call({"PING"}).status(), first);
  EXPECT_THAT(changes, ElementsAre(absl::StatusCode::kUnavailable));

  changes.clear();
  options.retry_delay = absl::ZeroDuration();
  RedisClient eager(AddressOf(redis), options);
  redis.Kill();
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(eager.Call({"PING"}).ok());
  redis.Start();
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(eager.Call({"PING"}).ok());
  EXPECT_THAT(changes, ElementsAre(absl::StatusCode::kUnavailable, absl::StatusCode::kOk));
}

TEST(RedisClientTest, TooManyClientsAreTheReasonThatIsGiven) {
  RedisServer redis({"--maxclients", "1"});
  RedisClient client(AddressOf(redis), kPatient);
  ASSERT_TRUE(client.Call({"PING"}).ok());
  RedisClient second(AddressOf(redis), kPatient);
  const absl::Status status = second.Call({"PING"}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()), HasSubstr("max number of clients"));
}

TEST(RedisClientTest, NoDescriptorIsLostOverAThousandCallsAndRestarts) {
  RedisServer redis;
  RedisClientOptions options = kPatient;
  options.max_idle_connections = 3;
  const size_t before = OpenDescriptors();
  {
    RedisClient client(AddressOf(redis), options);
    for (int round = 0; round < 10; ++round) {
      std::vector<std::jthread> threads;
      for (int thread = 0; thread < 5; ++thread) {
        threads.emplace_back([&client] {
          for (int call = 0; call < 20; ++call) EXPECT_TRUE(client.Call({"PING"}).ok());
        });
      }
      threads.clear();
      EXPECT_LE(OpenDescriptors(), before + 3);
      redis.Kill();
      EXPECT_FALSE(client.Call({"PING"}).ok());
      EXPECT_EQ(OpenDescriptors(), before);
      redis.Start();
      // Only one call tries; the others would fail at once.
      EXPECT_TRUE(client.Call({"PING"}).ok());
    }
  }
  EXPECT_EQ(OpenDescriptors(), before);
}

const Instant kStart = Instant(std::chrono::hours(1));
const absl::Status kRefused = absl::UnavailableError("Connection refused");

TEST(RedisBreakerTest, LetsAllInWhileNothingHasFailed) {
  RedisBreaker breaker(milliseconds(200));
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(breaker.Admit(kStart).ok());
  EXPECT_FALSE(breaker.Succeeded());
  EXPECT_TRUE(breaker.Admit(kStart).ok());
}

TEST(RedisBreakerTest, FailsCallsAtOnceForAWhileAndThenLetsOneTry) {
  RedisBreaker breaker(milliseconds(200));
  ASSERT_TRUE(breaker.Admit(kStart).ok());
  EXPECT_TRUE(breaker.Failed(kStart, kRefused));
  EXPECT_EQ(breaker.Admit(kStart + milliseconds(199)), kRefused);
  EXPECT_TRUE(breaker.Admit(kStart + milliseconds(200)).ok());
  // However long that lasts, no other call tries meanwhile.
  EXPECT_EQ(breaker.Admit(kStart + milliseconds(5000)), kRefused);
  EXPECT_FALSE(breaker.Failed(kStart + milliseconds(5000), kRefused));
  EXPECT_EQ(breaker.Admit(kStart + milliseconds(5199)), kRefused);
  EXPECT_TRUE(breaker.Admit(kStart + milliseconds(5200)).ok());
}

TEST(RedisBreakerTest, ASuccessLetsAllInAgain) {
  RedisBreaker breaker(milliseconds(200));
  EXPECT_TRUE(breaker.Failed(kStart, kRefused));
  ASSERT_TRUE(breaker.Admit(kStart + milliseconds(200)).ok());
  EXPECT_TRUE(breaker.Succeeded());
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(breaker.Admit(kStart + milliseconds(200)).ok());
  EXPECT_TRUE(breaker.Failed(kStart, kRefused));
}

}  // namespace
}  // namespace batchplan::testing
