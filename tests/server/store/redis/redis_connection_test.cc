#include "server/store/redis/redis_connection.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <latch>
#include <memory>
#include <string>
#include <thread>

#include "tests/server/store/redis/scripted_redis.h"

namespace batchplan::testing {
namespace {

using ::testing::HasSubstr;

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr seconds kLong(30);

Instant In(Instant::duration duration) { return std::chrono::steady_clock::now() + duration; }

RedisAddress At(int port) {
  RedisAddress address;
  address.host = "127.0.0.1";
  address.port = static_cast<uint16_t>(port);
  return address;
}

std::unique_ptr<RedisConnection> Connect(const ScriptedRedis& redis) {
  return RedisConnection::Open(At(redis.port()), In(kLong)).value();
}

TEST(RedisConnectionTest, ACommandOfAnyBytesAndItsReplyArePassedOn) {
  ScriptedRedis redis({[](RedisPeer& peer) {
    ASSERT_TRUE(peer.ReadUntil(std::string("*2\r\n$3\r\nGET\r\n$4\r\n\0\r\n\xff\r\n", 23)));
    peer.Write(std::string("$3\r\n\0\r\n\r\n", 9));
  }});
  const RedisReply reply =
      Connect(redis)->Call({"GET", std::string_view("\0\r\n\xff", 4)}, In(kLong)).value();
  EXPECT_EQ(RedisString(*reply), std::string("\0\r\n", 3));
}

TEST(RedisConnectionTest, AReplyMayComeInPiecesAndTwoAtOnce) {
  ScriptedRedis redis({[](RedisPeer& peer) {
    peer.ReadUntil("PING");
    for (const char byte : std::string("*2\r\n:1\r\n$2\r\nab\r\n")) peer.Write({byte});
    peer.ReadUntil("PING");
    peer.Write("+one\r\n+two\r\n");
    peer.AwaitClose();
  }});
  const std::unique_ptr<RedisConnection> connection = Connect(redis);
  RedisReply reply = connection->Call({"PING"}, In(kLong)).value();
  ASSERT_EQ(RedisElements(*reply).size(), 2);
  EXPECT_EQ(RedisElements(*reply)[0]->integer, 1);
  EXPECT_EQ(RedisBytes(*RedisElements(*reply)[1]), "ab");
  reply = connection->Call({"PING"}, In(kLong)).value();
  EXPECT_EQ(RedisBytes(*reply), "one");
  EXPECT_EQ(RedisBytes(*connection->Receive(In(kLong)).value()), "two");
}

TEST(RedisConnectionTest, ADeadlineHoldsForTheWholeReplyAndNotForEachOfItsBytes) {
  std::atomic<bool> done = false;
  ScriptedRedis redis({[&done](RedisPeer& peer) {
    peer.ReadUntil("PING");
    peer.Write("$1000000000\r\n");
    while (!done && peer.Write("x")) std::this_thread::yield();
  }});
  const std::unique_ptr<RedisConnection> connection = Connect(redis);
  const Instant start = std::chrono::steady_clock::now();
  const absl::Status status = connection->Call({"PING"}, start + milliseconds(100)).status();
  done = true;
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_GE(std::chrono::steady_clock::now() - start, milliseconds(100));
}

TEST(RedisConnectionTest, AReplyThatHasBegunIsGivenUpWhenItStops) {
  ScriptedRedis redis({[](RedisPeer& peer) {
    peer.ReadUntil("PING");
    peer.Write("$100\r\nsome of it");
    peer.AwaitClose();
  }});
  const absl::Status status =
      Connect(redis)->Call({"PING"}, In(std::chrono::hours(1)), milliseconds(50)).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
}

TEST(RedisConnectionTest, AReplyThatTricklesIsGivenUpThoughItNeverStops) {
  std::atomic<bool> done = false;
  ScriptedRedis redis({[&done](RedisPeer& peer) {
    peer.ReadUntil("PING");
    peer.Write("$1000000000\r\n");
    while (!done && peer.Write("x")) std::this_thread::sleep_for(milliseconds(1));
  }});
  const absl::Status status =
      Connect(redis)->Call({"PING"}, In(milliseconds(100)), std::chrono::hours(1)).status();
  done = true;
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
}

TEST(RedisConnectionTest, ARedisThatDoesNotReadCostsTheDeadline) {
  std::latch done(1);
  ScriptedRedis redis({[&done](RedisPeer&) { done.wait(); }});
  const std::unique_ptr<RedisConnection> connection = Connect(redis);
  const std::string large(64 << 20, 'x');
  EXPECT_EQ(connection->Send({"SET", "key", large}, In(milliseconds(50))).code(),
            absl::StatusCode::kDeadlineExceeded);
  done.count_down();
}

TEST(RedisConnectionTest, ALostConnectionIsUnavailable) {
  ScriptedRedis redis({[](RedisPeer& peer) {
    peer.ReadUntil("PING");
    peer.Write("+PO");
  }});
  const std::unique_ptr<RedisConnection> connection = Connect(redis);
  EXPECT_EQ(connection->Call({"PING"}, In(kLong)).status().code(), absl::StatusCode::kUnavailable);
  // And raises no SIGPIPE.
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(connection->Call({"PING"}, In(kLong)).status().code(),
              absl::StatusCode::kUnavailable);
  }
}

TEST(RedisConnectionTest, BytesThatAreNoReplyAreInternal) {
  for (const char* bytes : {"HTTP/1.1 400 Bad Request\r\n", "\r\n", "*9999999999999999999\r\n"}) {
    ScriptedRedis redis({[bytes](RedisPeer& peer) {
      peer.ReadUntil("PING");
      peer.Write(bytes);
      peer.AwaitClose();
    }});
    EXPECT_EQ(Connect(redis)->Call({"PING"}, In(kLong)).status().code(),
              absl::StatusCode::kInternal)
        << bytes;
  }
}

TEST(RedisConnectionTest, ARefusedConnectionSaysSo) {
  int port = 0;
  { port = ScriptedRedis({}).port(); }
  const absl::Status status = RedisConnection::Open(At(port), In(kLong)).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()), HasSubstr("Connection refused"));
}

TEST(RedisConnectionTest, ASocketThatIsNotThereSaysSo) {
  RedisAddress address;
  address.socket_path = "/no/such/socket";
  const absl::Status status = RedisConnection::Open(address, In(kLong)).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()), HasSubstr("No such file"));
}

TEST(RedisConnectionTest, AHostThatIsNotKnownSaysSo) {
  // Names under .invalid never resolve.
  RedisAddress address;
  address.host = "redis.invalid";
  const absl::Status status = RedisConnection::Open(address, In(kLong)).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_FALSE(status.message().empty());
}

TEST(RedisConnectionTest, EntersWithUserPasswordAndDatabase) {
  ScriptedRedis redis({[](RedisPeer& peer) {
    peer.ReadUntil("*3\r\n$4\r\nAUTH\r\n$2\r\nme\r\n$6\r\nsecret\r\n");
    peer.Write("+OK\r\n");
    peer.ReadUntil("*2\r\n$6\r\nSELECT\r\n$1\r\n7\r\n");
    peer.Write("+OK\r\n");
    peer.AwaitClose();
  }});
  RedisAddress address = At(redis.port());
  address.user = "me";
  address.password = "secret";
  address.database = 7;
  EXPECT_TRUE(RedisConnection::Open(address, In(kLong)).ok());
}

TEST(RedisConnectionTest, WhoIsNotLetInHearsItAsAFailedPreconditionUnlessItPasses) {
  const struct {
    const char* reply;
    absl::StatusCode code;
  } kCases[] = {
      {"-WRONGPASS invalid username-password pair\r\n", absl::StatusCode::kFailedPrecondition},
      {"-ERR AUTH called without any password configured\r\n",
       absl::StatusCode::kFailedPrecondition},
      {"-LOADING Redis is loading the dataset in memory\r\n", absl::StatusCode::kUnavailable},
  };
  for (const auto& [reply, code] : kCases) {
    ScriptedRedis redis({[reply = reply](RedisPeer& peer) {
      peer.ReadUntil("AUTH");
      peer.Write(reply);
      peer.AwaitClose();
    }});
    RedisAddress address = At(redis.port());
    address.password = "secret";
    const absl::Status status = RedisConnection::Open(address, In(kLong)).status();
    EXPECT_EQ(status.code(), code) << reply;
    EXPECT_THAT(std::string(status.message()), ::testing::Not(HasSubstr("secret")));
  }
}

TEST(RedisConnectionTest, AWaitEndsWhenItIsWoken) {
  const int wake = eventfd(0, EFD_CLOEXEC);
  std::latch asked(1);
  ScriptedRedis redis({[&asked](RedisPeer& peer) {
    peer.ReadUntil("PING");
    asked.count_down();
    peer.AwaitClose();
  }});
  std::unique_ptr<RedisConnection> connection =
      RedisConnection::Open(At(redis.port()), In(kLong), wake).value();
  std::jthread waker([&asked, wake] {
    asked.wait();
    eventfd_write(wake, 1);
  });
  EXPECT_EQ(connection->Call({"PING"}, In(std::chrono::hours(1))).status().code(),
            absl::StatusCode::kCancelled);
  waker.join();
  connection.reset();
  EXPECT_EQ(RedisConnection::Open(At(redis.port()), In(kLong), wake).status().code(),
            absl::StatusCode::kCancelled);
  close(wake);
}

}  // namespace
}  // namespace batchplan::testing
