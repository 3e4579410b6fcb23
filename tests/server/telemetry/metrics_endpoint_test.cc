#include "server/telemetry/metrics_endpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "server/telemetry/metrics.h"
#include "tests/server/telemetry/local_socket.h"

namespace batchplan {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(MetricsEndpointTest, ServesTheRegistryOnAFreePort) {
  Metrics metrics("1.2.3");
  auto endpoint = MetricsEndpoint::Start("127.0.0.1:0", metrics.registry());
  ASSERT_TRUE(endpoint.ok()) << endpoint.status();
  ASSERT_GT((*endpoint)->port(), 0);
  const std::string answer = HttpGet((*endpoint)->port(), "/metrics");
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 200 OK"));
  EXPECT_THAT(answer, HasSubstr("batchplan_build_info{version=\"1.2.3\"} 1\n"));
}

TEST(MetricsEndpointTest, ATakenPortIsAnErrorThatNamesIt) {
  Metrics metrics("1");
  auto first = MetricsEndpoint::Start("127.0.0.1:0", metrics.registry());
  ASSERT_TRUE(first.ok()) << first.status();
  const std::string address = "127.0.0.1:" + std::to_string((*first)->port());
  auto second = MetricsEndpoint::Start(address, metrics.registry());
  EXPECT_EQ(second.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(second.status().message()), HasSubstr(address));
}

TEST(MetricsEndpointTest, AnAddressThatIsNoneIsAnError) {
  Metrics metrics("1");
  EXPECT_EQ(MetricsEndpoint::Start("nonsense:port", metrics.registry()).status().code(),
            absl::StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace batchplan
