// TLS to a redis-server.

#include "server/store/redis/redis_tls.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "server/store/redis/redis_client.h"
#include "server/store/redis/redis_subscriber.h"
#include "tests/server/store/redis/scripted_redis.h"
#include "tests/support/certificates.h"
#include "tests/support/redis_server.h"
#include "tests/support/scratch_directory.h"

namespace batchplan::testing {
namespace {

using ::testing::HasSubstr;

// Patient on a busy machine, and without a pause after a failure.
const RedisClientOptions kPatient = {.connect_timeout = absl::Seconds(20),
                                     .command_timeout = absl::Seconds(20),
                                     .retry_delay = absl::ZeroDuration()};

class RedisTlsTest : public ::testing::Test {
 protected:
  // Arguments of redis-server for a certificate, its key, and the authority of our clients.
  std::vector<std::string> Serving(const PemPair& pair, const std::string& ask = "no") {
    return {"--tls-cert-file",    files_.Write("server.pem", pair.certificate),
            "--tls-key-file",     files_.Write("server.key", pair.key),
            "--tls-ca-cert-file", trusted_,
            "--tls-auth-clients", ask};
  }
  RedisTlsFiles Showing(const PemPair& pair) {
    return {.authorities = trusted_,
            .certificate = files_.Write("client.pem", pair.certificate),
            .key = files_.Write("client.key", pair.key)};
  }

  RedisAddress At(const RedisServer& redis) const { return At(redis, {.authorities = trusted_}); }
  static RedisAddress At(const RedisServer& redis, RedisTlsFiles files) {
    RedisAddress address = ParseRedisAddress(redis.url()).value();
    address.tls_files = std::move(files);
    return address;
  }

  static absl::Status Ping(const RedisAddress& address) {
    return RedisClient(address, kPatient).Call({"PING"}).status();
  }
  static void ExpectRefused(const RedisAddress& address, const std::string& reason) {
    const absl::Status status = Ping(address);
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(reason));
  }

  const ScratchDirectory files_;
  const CertificateAuthority authority_{"authority"};
  const CertificateAuthority stranger_{"stranger"};
  const std::string trusted_ = files_.Write("ca.pem", authority_.certificate());
};

TEST_F(RedisTlsTest, CallsGoThroughAndChannelsAreHeard) {
  const RedisServer redis(Serving(authority_.Issue("redis")));
  RedisClient client(At(redis), kPatient);
  EXPECT_EQ(RedisBytes(**client.Call({"PING"})), "PONG");
  RedisAddress by_name = At(redis);
  by_name.host = "localhost";
  EXPECT_EQ(Ping(by_name), absl::OkStatus());

  std::atomic<int> heard = 0;
  RedisSubscriber subscriber(At(redis), "news", {}, [&heard](std::string_view) { ++heard; });
  while (!subscriber.WaitUntilSubscribed(std::chrono::steady_clock::now() +
                                         std::chrono::seconds(20))) {
  }
  ASSERT_TRUE(client.Call({"PUBLISH", "news", "one"}).ok());
  while (heard == 0) std::this_thread::yield();
}

TEST_F(RedisTlsTest, ManyRecordsComeBackAsTheyWere) {
  const RedisServer redis(Serving(authority_.Issue("redis")));
  RedisClient client(At(redis), kPatient);
  std::string large;
  for (int i = 0; i < 8 << 20; ++i) large += static_cast<char>(i * 31 % 251);
  ASSERT_TRUE(client.Call({"SET", "key", large}).ok());
  EXPECT_EQ(RedisString(**client.Call({"GET", "key"})), large);
}

TEST_F(RedisTlsTest, ACertificateOfAnotherAuthorityIsNotTrusted) {
  const RedisServer redis(Serving(stranger_.Issue("redis")));
  ExpectRefused(At(redis), "its certificate is not trusted: unable to get local issuer");
  // An authority that the system does not know is refused too.
  ExpectRefused(At(redis, {}), "its certificate is not trusted: unable to get local issuer");
}

TEST_F(RedisTlsTest, ACertificateForAnotherHostIsNotTrusted) {
  const RedisServer redis(
      Serving(authority_.Issue("redis", {}, "DNS:redis.example,DNS:*.local,IP:10.0.0.1")));
  ExpectRefused(At(redis), "not trusted: IP address mismatch");
  RedisAddress by_name = At(redis);
  by_name.host = "localhost";
  ExpectRefused(by_name, "not trusted: hostname mismatch");
}

TEST_F(RedisTlsTest, ACertificateIsTrustedOnlyInItsTime) {
  const RedisServer expired(
      Serving(authority_.Issue("redis", {.from = -absl::Hours(2), .to = -absl::Hours(1)})));
  ExpectRefused(At(expired), "not trusted: certificate has expired");
  const RedisServer early(
      Serving(authority_.Issue("redis", {.from = absl::Hours(1), .to = absl::Hours(2)})));
  ExpectRefused(At(early), "not trusted: certificate is not yet valid");
}

TEST_F(RedisTlsTest, ARedisThatAsksForACertificateIsShownOne) {
  const RedisServer redis(Serving(authority_.Issue("redis"), "yes"));
  EXPECT_EQ(Ping(At(redis, Showing(authority_.Issue("batchplan")))), absl::OkStatus());
  ExpectRefused(At(redis), "certificate required");
  ExpectRefused(At(redis, Showing(stranger_.Issue("batchplan"))), "TLS fails: ");
}

TEST_F(RedisTlsTest, TheSameWithTls12) {
  std::vector<std::string> arguments = Serving(authority_.Issue("redis"), "yes");
  arguments.insert(arguments.end(), {"--tls-protocols", "TLSv1.2"});
  const RedisServer redis(arguments);
  EXPECT_EQ(Ping(At(redis, Showing(authority_.Issue("batchplan")))), absl::OkStatus());
  ExpectRefused(At(redis), "TLS fails: ");
}

TEST_F(RedisTlsTest, ALostConnectionIsMadeAgain) {
  RedisServer redis(Serving(authority_.Issue("redis")));
  RedisClient client(At(redis), kPatient);
  ASSERT_TRUE(client.Call({"PING"}).ok());
  redis.Command({"CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"});
  EXPECT_EQ(client.Call({"PING"}).status(), absl::OkStatus());
  redis.Kill();
  EXPECT_EQ(client.Call({"PING"}).status().code(), absl::StatusCode::kUnavailable);
  redis.Start();
  EXPECT_EQ(client.Call({"PING"}).status(), absl::OkStatus());
}

TEST_F(RedisTlsTest, RenewedFilesHoldFromTheNextConnection) {
  RedisServer redis(Serving(authority_.Issue("redis")));
  RedisClient client(At(redis), kPatient);
  ASSERT_TRUE(client.Call({"PING"}).ok());
  redis.Kill();
  Serving(stranger_.Issue("redis"));
  redis.Start();
  EXPECT_EQ(client.Call({"PING"}).status().code(), absl::StatusCode::kFailedPrecondition);
  files_.Write("ca.pem", authority_.certificate() + stranger_.certificate());
  EXPECT_EQ(client.Call({"PING"}).status(), absl::OkStatus());
}

TEST_F(RedisTlsTest, TheOtherEndMustSpeakTls) {
  // How a Redis without TLS answers a line that it does not understand.
  ScriptedRedis plain({[](RedisPeer& peer) {
                         peer.Write("-ERR unknown command\r\n");
                         peer.AwaitClose();
                       },
                       [](RedisPeer& peer) { peer.AwaitClose(); }, [](RedisPeer&) {}});
  RedisAddress address =
      ParseRedisAddress("rediss://127.0.0.1:" + std::to_string(plain.port())).value();
  const auto open = [&address](Instant::duration patience) {
    return RedisConnection::Open(address, std::chrono::steady_clock::now() + patience).status();
  };
  EXPECT_EQ(open(std::chrono::seconds(20)),
            absl::FailedPreconditionError("TLS fails: wrong version number"));
  EXPECT_EQ(open(std::chrono::milliseconds(50)), absl::DeadlineExceededError("no TLS in time"));
  EXPECT_EQ(open(std::chrono::seconds(20)).code(), absl::StatusCode::kUnavailable);

  const RedisServer redis(Serving(authority_.Issue("redis")));
  address = At(redis);
  address.tls = false;
  EXPECT_EQ(Ping(address).code(), absl::StatusCode::kUnavailable);
}

TEST_F(RedisTlsTest, FilesThatCannotBeUsedAreNamed) {
  const PemPair pair = authority_.Issue("one");
  EXPECT_EQ(CheckRedisTlsFiles({}), absl::OkStatus());
  EXPECT_EQ(CheckRedisTlsFiles(Showing(pair)), absl::OkStatus());
  const auto expect = [](const RedisTlsFiles& files, const std::string& message) {
    const absl::Status status = CheckRedisTlsFiles(files);
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(std::string(status.message()), ::testing::StartsWith(message));
  };
  expect({.authorities = "/no/such"}, "--rendezvous_tls_ca=/no/such can't be used: ");
  const std::string empty = files_.Write("empty", "");
  expect({.authorities = empty}, "--rendezvous_tls_ca=" + empty);
  RedisTlsFiles files = Showing(pair);
  files.certificate = empty;
  expect(files, "--rendezvous_tls_certificate=" + empty);
  files = Showing({.certificate = pair.certificate, .key = authority_.Issue("other").key});
  expect(files, "--rendezvous_tls_key=" + files.key + " can't be used: key values mismatch");
}

}  // namespace
}  // namespace batchplan::testing
