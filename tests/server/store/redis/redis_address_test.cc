#include "server/store/redis/redis_address.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace batchplan {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(RedisAddressTest, AHostAloneIsEnough) {
  const RedisAddress address = ParseRedisAddress("redis://redis").value();
  EXPECT_EQ(address.host, "redis");
  EXPECT_EQ(address.port, 6379);
  EXPECT_EQ(address.database, 0);
  EXPECT_EQ(address.user, "");
  EXPECT_EQ(address.password, "");
  EXPECT_EQ(address.Redacted(), "redis://redis:6379");
  EXPECT_EQ(ParseRedisAddress("REDIS://redis/")->host, "redis");
}

TEST(RedisAddressTest, EveryPartIsRead) {
  const RedisAddress address = ParseRedisAddress("redis://me:secret@10.0.0.1:7000/15").value();
  EXPECT_EQ(address.host, "10.0.0.1");
  EXPECT_EQ(address.port, 7000);
  EXPECT_EQ(address.database, 15);
  EXPECT_EQ(address.user, "me");
  EXPECT_EQ(address.password, "secret");
  EXPECT_EQ(address.Redacted(), "redis://10.0.0.1:7000/15");
}

TEST(RedisAddressTest, APasswordNeedsNoUserAndMayHoldAnything) {
  EXPECT_EQ(ParseRedisAddress("redis://:secret@redis")->user, "");
  EXPECT_EQ(ParseRedisAddress("redis://:secret@redis")->password, "secret");
  EXPECT_EQ(ParseRedisAddress("redis://u%40x:a%2Fb%3f%25%00@redis")->user, "u@x");
  EXPECT_EQ(ParseRedisAddress("redis://u%40x:a%2Fb%3f%25%00@redis")->password,
            std::string("a/b?%\0", 6));
  EXPECT_EQ(ParseRedisAddress("redis://:a:b@c@redis")->password, "a:b@c");
}

TEST(RedisAddressTest, AnIpV6AddressStandsInBrackets) {
  const RedisAddress address = ParseRedisAddress("redis://:secret@[::1]:7000/1").value();
  EXPECT_EQ(address.host, "::1");
  EXPECT_EQ(address.port, 7000);
  EXPECT_EQ(address.Redacted(), "redis://[::1]:7000/1");
  EXPECT_EQ(ParseRedisAddress("redis://[::1]")->port, 6379);
}

TEST(RedisAddressTest, ASocketIsAPath) {
  for (const char* scheme : {"redis+unix", "unix"}) {
    const std::string url = std::string(scheme) + "://:secret@/run/my%20redis.sock?db=3";
    const RedisAddress address = ParseRedisAddress(url).value();
    EXPECT_EQ(address.socket_path, "/run/my redis.sock");
    EXPECT_EQ(address.password, "secret");
    EXPECT_EQ(address.database, 3);
    EXPECT_EQ(address.Redacted(), "redis+unix:///run/my redis.sock?db=3");
  }
  EXPECT_EQ(ParseRedisAddress("unix:///s")->database, 0);
}

TEST(RedisAddressTest, AnSIsForTls) {
  EXPECT_FALSE(ParseRedisAddress("redis://redis")->tls);
  const RedisAddress address = ParseRedisAddress("rediss://me:secret@redis/1").value();
  EXPECT_TRUE(address.tls);
  EXPECT_EQ(address.host, "redis");
  EXPECT_EQ(address.port, 6379);
  EXPECT_EQ(address.Redacted(), "rediss://redis:6379/1");
  EXPECT_TRUE(ParseRedisAddress("rediss+sentinel://a/m")->tls);
}

TEST(RedisAddressTest, SentinelsAreSeveralHostsAndAName) {
  const RedisAddress address =
      ParseRedisAddress("redis+sentinel://me:secret@a,[::1]:7000,10.0.0.1:1/my%20master/3").value();
  EXPECT_EQ(address.host, "");
  ASSERT_EQ(address.sentinels.size(), 3);
  EXPECT_EQ(address.sentinels[0].host, "a");
  EXPECT_EQ(address.sentinels[0].port, 26379);
  EXPECT_EQ(address.sentinels[1].host, "::1");
  EXPECT_EQ(address.sentinels[1].port, 7000);
  EXPECT_EQ(address.sentinels[2].host, "10.0.0.1");
  EXPECT_EQ(address.sentinels[2].port, 1);
  EXPECT_EQ(address.master, "my master");
  EXPECT_EQ(address.database, 3);
  EXPECT_EQ(address.user, "me");
  EXPECT_EQ(address.password, "secret");
  EXPECT_EQ(address.Redacted(), "redis+sentinel://a:26379,[::1]:7000,10.0.0.1:1/my master/3");
  EXPECT_EQ(ParseRedisAddress("redis+sentinel://a/m")->database, 0);
}

TEST(RedisAddressTest, WhatAnErrorRecommendsIsWhatAFlagMayHave) {
  // A server refuses a URL with a password.
  EXPECT_THAT(std::string(ParseRedisAddress("http://redis").status().message()),
              AllOf(HasSubstr("rediss"), HasSubstr("redis+sentinel://[user@]host"),
                    Not(HasSubstr(":password"))));
}

TEST(RedisAddressTest, UserMayStandAlone) {
  const auto address = ParseRedisAddress("redis://planner@redis");
  ASSERT_TRUE(address.ok()) << address.status();
  EXPECT_EQ(address->user, "planner");
  EXPECT_EQ(address->password, "");
  EXPECT_EQ(address->Redacted(), "redis://redis:6379");
}

TEST(RedisAddressTest, WhatIsWrongIsNamedAndNeverQuoted) {
  const struct {
    std::string url;
    const char* message;
  } kCases[] = {
      {"", "no scheme"},
      {"redis:6379", "no scheme"},
      {"secret@redis", "no scheme"},
      {"secret://redis", "scheme is not known"},
      {"rediss+unix:///secret", "scheme is not known"},
      {"redis+sentinel://a,b", "name of the master"},
      {"redis+sentinel://a,b/", "name of the master"},
      {"redis+sentinel://a,/secret", "no host"},
      {"redis+sentinel:///secret", "no host"},
      {"redis+sentinel://a:secret/m", "port must be a number"},
      {"redis+sentinel://a/m/secret", "database must be a number"},
      {"redis+sentinel://a/m?secret", "only /master and /database"},
      {"redis+sentinel://a//1", "only /master and /database"},
      {"redis+sentinel://a/%secret", "hexadecimal"},
      {"redis://a,b", "one name or address"},
      {"redis://", "no host"},
      {"redis://:secret@", "no host"},
      {"redis://:secret@:6379", "no host"},
      {"redis://@redis", "no user or password"},
      {"redis://user:@redis", "no user or password"},
      {"redis://user:secret", "port must be a number"},
      {"redis://redis:secret", "port must be a number"},
      {"redis://redis:", "port must be a number"},
      {"redis://redis:0", "1 to 65535"},
      {"redis://redis:65536", "1 to 65535"},
      {"redis://redis:-1", "1 to 65535"},
      {"redis://redis/secret", "database must be a number"},
      {"redis://:se/cret@redis", "no host"},
      {"redis://redis/2147483648", "0 to 2147483647"},
      {"redis://redis/1/", "database must be a number"},
      {"redis://redis?db=1", "only /database"},
      {"redis://a secret", "one name or address"},
      {"redis://[::1", "without ]"},
      {"redis://[::1]6379", "only :port"},
      {"redis://:%secret@redis", "hexadecimal"},
      {"redis://:%2@redis", "hexadecimal"},
      {"unix://", "no socket path"},
      {"unix:///", "no socket path"},
      {"unix://secret/path", "begins with /"},
      {"unix:///path?secret=1", "only ?db="},
      {"unix:///path?db=", "database must be a number"},
      {"unix:///%", "hexadecimal"},
      {"unix:///a%00b", "none of them zero"},
      {"unix:///" + std::string(107, 'a'), "at most 107 bytes"},
  };
  for (const auto& [url, message] : kCases) {
    const absl::StatusOr<RedisAddress> address = ParseRedisAddress(url);
    ASSERT_EQ(address.status().code(), absl::StatusCode::kInvalidArgument) << url;
    EXPECT_THAT(std::string(address.status().message()), HasSubstr(message)) << url;
    EXPECT_THAT(std::string(address.status().message()), Not(HasSubstr("secret"))) << url;
  }
  EXPECT_TRUE(ParseRedisAddress("unix:///" + std::string(106, 'a')).ok());
}

}  // namespace
}  // namespace batchplan
