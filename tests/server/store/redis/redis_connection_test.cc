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

TEST(RedisConnectionTest, ADeadlineHoldsForTheWholeReplyThoughItTrickles) {
  // Without `silence`, and with it; then the deadline is extended by the transfer time of the
  // bytes.
  for (const Instant::duration silence : {Instant::duration::zero(), Instant::duration(kLong)}) {
    std::atomic<bool> done = false;
    ScriptedRedis redis({[&done](RedisPeer& peer) {
      peer.ReadUntil("PING");
      peer.Write("$1000000000\r\n");
      while (!done && peer.Write("x")) std::this_thread::sleep_for(milliseconds(1));
    }});
    const std::unique_ptr<RedisConnection> connection = Connect(redis);
    const Instant start = std::chrono::steady_clock::now();
    const absl::Status status =
        connection->Call({"PING"}, start + milliseconds(100), silence).status();
    done = true;
    EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
    EXPECT_GE(std::chrono::steady_clock::now() - start, milliseconds(100));
  }
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
  // Nor does it raise SIGPIPE.
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

absl::StatusCode CodeOf(const std::string& text) { return StatusFromRedisError(text).code(); }

TEST(RedisErrorTest, NoMemoryIsResourceExhausted) {
  EXPECT_EQ(CodeOf("OOM command not allowed when used memory > 'maxmemory'."),
            absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(CodeOf("OOM command not allowed when used memory > 'maxmemory'. script: 3d5, on "
                   "@user_script:8."),
            absl::StatusCode::kResourceExhausted);
  // The form of Redis 6.
  EXPECT_EQ(CodeOf("ERR Error running script (call to f_3d5): @user_script:8: @user_script: 8: "
                   "-OOM command not allowed when used memory > 'maxmemory'. "),
            absl::StatusCode::kResourceExhausted);
}

TEST(RedisErrorTest, WhatPassesByItselfIsUnavailable) {
  for (const char* text :
       {"LOADING Redis is loading the dataset in memory", "BUSY Redis is busy running a script.",
        "MASTERDOWN Link with MASTER is down",
        "READONLY You can't write against a read only replica.",
        "NOREPLICAS Not enough good replicas to write.",
        "MISCONF Redis is configured to save RDB snapshots", "ERR max number of clients reached",
        "LOADING",
        "ERR Error running script (call to f_3d5): @user_script:8: @user_script: 8: "
        "-READONLY You can't write against a read only replica. "}) {
    EXPECT_EQ(CodeOf(text), absl::StatusCode::kUnavailable) << text;
  }
}

TEST(RedisErrorTest, WhatAPersonHasToPutRightIsFailedPrecondition) {
  for (const char* text :
       {"NOAUTH Authentication required.", "WRONGPASS invalid username-password pair",
        "NOPERM this user has no permissions to run the 'evalsha' command",
        "DENIED Redis is running in protected mode", "MOVED 3999 127.0.0.1:6381",
        "ASK 3999 127.0.0.1:6381", "CLUSTERDOWN Hash slot not served",
        "TRYAGAIN Multiple keys request during rehashing of slot",
        "CROSSSLOT Keys in request don't hash to the same slot",
        "ERR Protocol error: unauthenticated multibulk length"}) {
    EXPECT_EQ(CodeOf(text), absl::StatusCode::kFailedPrecondition) << text;
  }
}

TEST(RedisErrorTest, EverythingElseIsInternal) {
  for (const char* text : {"", "ERR unknown command", "WRONGTYPE Operation against a key", "OOMPH",
                           "BUSYKEY exists", "ERR value: -OOM ", "MOVEDX"}) {
    EXPECT_EQ(CodeOf(text), absl::StatusCode::kInternal) << text;
  }
}

TEST(RedisErrorTest, AnEndlessTextIsCut) {
  EXPECT_EQ(StatusFromRedisError(std::string(100'000, 'x')).message().size(), 200);
}

TEST(RedisErrorTest, AnExplanationNamesTheStoreTheReasonAndWhatToDo) {
  const absl::Status unavailable =
      ExplainRedisFailure("redis://redis:6379", absl::UnavailableError("Connection refused"));
  EXPECT_EQ(unavailable.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(std::string(unavailable.message()),
            "the rendezvous store redis://redis:6379 can't be reached: Connection refused; "
            "JoinBatch and fitted costs wait for it, PlanBatch does not need it; check "
            "--rendezvous_store, then retry");
  EXPECT_EQ(ExplainRedisFailure("r", absl::DeadlineExceededError("late")).code(),
            absl::StatusCode::kUnavailable);
  const absl::Status full = ExplainRedisFailure("r", absl::ResourceExhaustedError("OOM"));
  EXPECT_EQ(full.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(full.message()), HasSubstr("maxmemory"));
  const absl::Status refused = ExplainRedisFailure("r", absl::FailedPreconditionError("NOAUTH"));
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("password"));
  EXPECT_EQ(ExplainRedisFailure("r", absl::InternalError("odd")).code(),
            absl::StatusCode::kInternal);
}

}  // namespace
}  // namespace batchplan::testing
