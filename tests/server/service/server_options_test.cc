#include "server/service/server_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace batchplan {
namespace {

using ::testing::HasSubstr;

std::string Error(const ServerOptions& options) {
  const absl::Status status = options.Validate();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  return std::string(status.message());
}

TEST(ServerOptionsTest, TheDefaultsAreValid) { EXPECT_TRUE(ServerOptions().Validate().ok()); }

TEST(ServerOptionsTest, AddressesAreHostAndPort) {
  for (const char* good : {"127.0.0.1:0", "[::]:50051", "[::1]:1", "localhost:65535", "unix:/s"}) {
    ServerOptions options;
    options.listen = good;
    EXPECT_TRUE(options.Validate().ok()) << good;
  }
  for (const char* bad : {"", "localhost", ":50051", "a:", "a:b", "a:65536", "a:-1", "::1:50051",
                          "a:1,b:2", "a b:1", "http://a:1", "a:99999999999999999999"}) {
    ServerOptions options;
    options.listen = bad;
    EXPECT_THAT(Error(options), HasSubstr("--listen=" + std::string(bad) + ": must be HOST:PORT"));
  }
}

TEST(ServerOptionsTest, TheMetricsAddressMayBeEmpty) {
  ServerOptions options;
  options.metrics_listen = "";
  EXPECT_TRUE(options.Validate().ok());
  options.metrics_listen = "9464s,9465";
  EXPECT_THAT(Error(options), HasSubstr("--metrics_listen=9464s,9465"));
}

TEST(ServerOptionsTest, AnErrorNamesFlagValueAndLimit) {
  ServerOptions options;
  options.max_message_bytes = 0;
  EXPECT_EQ(Error(options), "--max_message_bytes=0: must be 1024 to 2147483647");
  options = {};
  options.planning_threads = -1;
  EXPECT_EQ(Error(options), "--planning_threads=-1: must be 0 to 1024");
  options = {};
  options.max_queued_plans = -5;
  EXPECT_EQ(Error(options), "--max_queued_plans=-5: must be 0 to 1000000");
  options = {};
  options.max_queued_sequences = 0;
  EXPECT_EQ(Error(options), "--max_queued_sequences=0: must be 1 to 1099511627776");
  options = {};
  options.max_sequences = 0;
  EXPECT_EQ(Error(options), "--max_sequences=0: must be 1 to 2147483647");
  options = {};
  options.plan_cache_bytes = -1;
  EXPECT_EQ(Error(options), "--plan_cache_bytes=-1: must be 0 to 1099511627776");
  options = {};
  options.drain_delay = absl::Seconds(-1);
  EXPECT_EQ(Error(options), "--drain_delay=-1: must be 0 to 3600 seconds");
  options = {};
  options.shutdown_grace = absl::InfiniteDuration();
  EXPECT_THAT(Error(options), HasSubstr("--shutdown_grace=inf"));
}

TEST(ServerOptionsTest, FilesForTlsToTheStoreNeedTlsToTheStore) {
  ServerOptions options;
  options.rendezvous_tls_ca = "ca";
  for (const char* plain : {"memory", "redis://redis", "redis+sentinel://a,b/m"}) {
    options.rendezvous_store = plain;
    EXPECT_THAT(Error(options), HasSubstr("--rendezvous_tls_ca=ca: needs a --rendezvous_store"));
  }
  for (const char* encrypted : {"rediss://user@redis", "rediss+sentinel://a,b/m/1"}) {
    options.rendezvous_store = encrypted;
    EXPECT_TRUE(options.Validate().ok()) << options.Validate();
  }
  options.rendezvous_tls_certificate = "c";
  EXPECT_EQ(Error(options), "--rendezvous_tls_certificate=c: needs --rendezvous_tls_key too");
  options.rendezvous_tls_certificate = "";
  options.rendezvous_tls_key = "k";
  EXPECT_EQ(Error(options), "--rendezvous_tls_key=k: needs --rendezvous_tls_certificate too");
}

TEST(ServerOptionsTest, SecurityFlagsThatNeedOthersSaySo) {
  ServerOptions options;
  options.tls_certificate = "c";
  EXPECT_EQ(Error(options), "--tls_certificate=c: needs --tls_key too");
  options = {};
  options.tls_key = "k";
  EXPECT_EQ(Error(options), "--tls_key=k: needs --tls_certificate too");
  options = {};
  options.tls_client_ca = "a";
  EXPECT_EQ(Error(options), "--tls_client_ca=a: needs --tls_certificate too");
  options = {};
  options.auth_tokens = "t";
  EXPECT_EQ(Error(options), "--auth_tokens=t: needs --tls_certificate too");
  options.tls_certificate = "c";
  options.tls_key = "k";
  options.tls_client_ca = "a";
  EXPECT_TRUE(options.Validate().ok());
}

TEST(ServerOptionsTest, LimitsOfConnectionsAreChecked) {
  ServerOptions options;
  options.keepalive_interval = absl::Milliseconds(10);
  EXPECT_EQ(Error(options), "--keepalive_interval=0.01: must be 1 to 86400 seconds");
  options = {};
  options.max_connection_age = absl::Hours(25);
  EXPECT_EQ(Error(options), "--max_connection_age=90000: must be 0 to 86400 seconds");
  options = {};
  options.max_connection_idle = -absl::Seconds(1);
  EXPECT_EQ(Error(options), "--max_connection_idle=-1: must be 0 to 86400 seconds");
  options = {};
  options.handshake_timeout = absl::ZeroDuration();
  EXPECT_EQ(Error(options), "--handshake_timeout=0: must be 1 to 3600 seconds");
  options = {};
  options.tls_reload_interval = absl::ZeroDuration();
  EXPECT_EQ(Error(options), "--tls_reload_interval=0: must be 1 to 86400 seconds");
  options = {};
  options.max_concurrent_streams = 0;
  EXPECT_EQ(Error(options), "--max_concurrent_streams=0: must be 1 to 1000000");
  options = {};
  options.max_metadata_bytes = 100;
  EXPECT_EQ(Error(options), "--max_metadata_bytes=100: must be 4096 to 1048576");
  options = {};
  options.max_job_labels = 10'001;
  EXPECT_EQ(Error(options), "--max_job_labels=10001: must be 0 to 10000");
}

}  // namespace
}  // namespace batchplan
