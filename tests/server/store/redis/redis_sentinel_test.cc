// A Redis that is found through its Sentinels.

#include "server/store/redis/redis_sentinel.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/store/redis/redis_stores.h"
#include "tests/server/store/redis/scripted_redis.h"
#include "tests/support/certificates.h"
#include "tests/support/redis_server.h"
#include "tests/support/reserved_port.h"
#include "tests/support/scratch_directory.h"

namespace batchplan::testing {
namespace {

using ::testing::HasSubstr;

using std::chrono::seconds;

Instant In(Instant::duration duration) { return std::chrono::steady_clock::now() + duration; }

// A Sentinel's script that answers once.
std::function<void(RedisPeer&)> Answer(const std::string& reply) {
  return [reply](RedisPeer& peer) {
    peer.ReadUntil("get-master-addr-by-name\r\n$2\r\nmy\r\n");
    peer.Write(reply);
    peer.AwaitClose();
  };
}

std::string MasterAt(int port) {
  const std::string digits = std::to_string(port);
  return absl::StrCat("*2\r\n$9\r\n127.0.0.1\r\n$", digits.size(), "\r\n", digits, "\r\n");
}

constexpr char kKnowsNone[] = "*-1\r\n";

RedisAddress By(const std::vector<int>& sentinels) {
  RedisAddress address;
  for (const int port : sentinels) {
    address.sentinels.push_back({.host = "127.0.0.1", .port = static_cast<uint16_t>(port)});
  }
  address.master = "my";
  return address;
}

absl::Status Find(const RedisAddress& address) {
  return OpenRedis(address, In(seconds(20))).status();
}

TEST(RedisSentinelTest, TheFirstThatKnowsTheMasterLeadsToIt) {
  const RedisServer redis;
  const ReservedPort nobody;
  ScriptedRedis unknowing({Answer(kKnowsNone)});
  ScriptedRedis knowing({Answer(MasterAt(redis.port()))});
  ScriptedRedis unasked({});
  RedisAddress address = By({nobody.number(), unknowing.port(), knowing.port(), unasked.port()});
  address.database = 3;
  std::unique_ptr<RedisConnection> connection = OpenRedis(address, In(seconds(20))).value();
  EXPECT_EQ(RedisBytes(**connection->Call({"SET", "key", "value"}, In(seconds(20)))), "OK");
  EXPECT_THAT(redis.Command({"INFO", "keyspace"}), HasSubstr("db3:keys=1"));
  EXPECT_EQ(unasked.connections(), 0);
}

TEST(RedisSentinelTest, OneThatIsSilentCostsItsPartOfTheTime) {
  const RedisServer redis;
  ScriptedRedis silent({[](RedisPeer& peer) { peer.AwaitClose(); }});
  ScriptedRedis knowing({Answer(MasterAt(redis.port()))});
  EXPECT_EQ(OpenRedis(By({silent.port(), knowing.port()}), In(seconds(3))).status(),
            absl::OkStatus());
}

TEST(RedisSentinelTest, WhereNoneKnowsTheMasterEachAnswerIsTold) {
  const ReservedPort nobody;
  ScriptedRedis unknowing({Answer(kKnowsNone)});
  ScriptedRedis odd({Answer("*1\r\n$1\r\nx\r\n")});
  ScriptedRedis refusing({Answer("-ERR unknown command 'SENTINEL'\r\n")});
  absl::Status status = Find(By({nobody.number(), unknowing.port(), odd.port(), refusing.port()}));
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(std::string(status.message()),
            absl::StrCat("no Sentinel knows the master my: 127.0.0.1:", nobody.number(),
                         ": Connection refused; 127.0.0.1:", unknowing.port(),
                         ": knows no such master; 127.0.0.1:", odd.port(),
                         ": names no host and port; 127.0.0.1:", refusing.port(),
                         ": ERR unknown command 'SENTINEL'"));
  ScriptedRedis first({Answer(kKnowsNone)});
  ScriptedRedis second({Answer(kKnowsNone)});
  status = Find(By({first.port(), second.port()}));
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
}

TEST(RedisSentinelTest, OneThatAsksForAPasswordGetsThatOfTheRedis) {
  const RedisServer redis({"--requirepass", "secret"});
  ScriptedRedis open({Answer(MasterAt(redis.port()))});
  RedisAddress address = By({open.port()});
  address.password = "secret";
  EXPECT_EQ(Find(address), absl::OkStatus());
  ScriptedRedis closed({[](RedisPeer& peer) {
                          peer.ReadUntil("get-master-addr-by-name");
                          peer.Write("-NOAUTH Authentication required.\r\n");
                        },
                        [&redis](RedisPeer& peer) {
                          peer.ReadUntil("AUTH\r\n$6\r\nsecret\r\n");
                          peer.Write("+OK\r\n");
                          Answer(MasterAt(redis.port()))(peer);
                        }});
  address.sentinels[0].port = static_cast<uint16_t>(closed.port());
  EXPECT_EQ(Find(address), absl::OkStatus());
}

// Two Redis and two Sentinels; the first Redis dies. With `tls`, all of them speak only TLS.
void ExpectFailOver(const std::vector<std::string>& tls, const RedisTlsFiles& files) {
  const auto with_tls = [&tls](std::vector<std::string> arguments) {
    arguments.insert(arguments.end(), tls.begin(), tls.end());
    return arguments;
  };
  RedisServer master(with_tls({}));
  const RedisServer replica(with_tls({"--replicaof", "127.0.0.1", std::to_string(master.port()),
                                      "--repl-diskless-sync-delay", "0"}));
  while (replica.Command({"INFO", "replication"}).find("master_link_status:up") ==
         std::string::npos) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  const ScratchDirectory settings;
  const std::string watch = absl::StrCat("sentinel monitor my 127.0.0.1 ", master.port(), " 2\n",
                                         "sentinel down-after-milliseconds my 500\n",
                                         "sentinel failover-timeout my 4000\n");
  const RedisServer sentinels[] = {
      RedisServer(with_tls({settings.Write("one.conf", watch), "--sentinel"})),
      RedisServer(with_tls({settings.Write("two.conf", watch), "--sentinel"}))};
  // They can't agree before they know each other and the replica.
  for (const RedisServer& sentinel : sentinels) {
    while (
        sentinel.Command({"SENTINEL", "MASTERS"}).find("num-slaves\n1\nnum-other-sentinels\n1") ==
        std::string::npos) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
  }

  RedisAddress address = By({sentinels[0].port(), sentinels[1].port()});
  address.tls = !tls.empty();
  address.tls_files = files;
  std::atomic<int> heard = 0;
  RedisStores stores = OpenRedisStores(address, {.client = {.connect_timeout = absl::Seconds(2),
                                                            .command_timeout = absl::Seconds(2)}})
                           .value();
  stores.steps->SetListener([&heard](const StepKey&, StepEvent) { ++heard; });
  ASSERT_EQ(stores.fits->Replace("job", 0, "state", "owner").value(), true);
  ASSERT_TRUE(stores.steps
                  ->PutPart({.job_id = "job", .step = 1},
                            {.worker = 0, .world_size = 1, .terms = "t", .content = "c"})
                  .ok());
  master.Kill();
  // Like a worker that retries.
  const auto put = [&stores](uint64_t step) {
    return stores.steps
        ->PutPart({.job_id = "job", .step = step},
                  {.worker = 0, .world_size = 1, .terms = "t", .content = "c"})
        .ok();
  };
  while (!put(2)) std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_THAT(replica.Command({"ROLE"}), HasSubstr("master"));
  EXPECT_EQ(stores.fits->Get("job")->state, "state");
  // Other replicas are heard again too.
  heard = 0;
  for (uint64_t step = 3; heard == 0; ++step) {
    EXPECT_TRUE(put(step));
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  stores.steps->SetListener(nullptr);
}

TEST(RedisSentinelTest, AFailOverIsFollowed) { ExpectFailOver({}, {}); }

TEST(RedisSentinelTest, AFailOverIsFollowedOverTls) {
  const ScratchDirectory files;
  const CertificateAuthority authority("authority");
  const PemPair pair = authority.Issue("redis");
  const std::string trusted = files.Write("ca.pem", authority.certificate());
  ExpectFailOver({"--tls-cert-file", files.Write("cert.pem", pair.certificate), "--tls-key-file",
                  files.Write("key.pem", pair.key), "--tls-ca-cert-file", trusted,
                  "--tls-auth-clients", "no", "--tls-replication", "yes"},
                 {.authorities = trusted});
}

}  // namespace
}  // namespace batchplan::testing
