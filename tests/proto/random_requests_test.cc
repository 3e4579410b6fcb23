// Sends random requests and their plans over the wire and back.

#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "absl/time/time.h"
#include "proto/batchplan/v1/convert.h"
#include "server/checker/check_plan.h"
#include "tests/support/checked_plan.h"
#include "tests/support/generated_request.h"
#include "tests/support/generators.h"
#include "tests/support/wire_request.h"

namespace batchplan {
namespace {

// Every fourth request has groups that differ in size.
testing::GeneratedRequest RandomRequest(uint64_t seed) {
  testing::GeneratedRequest request =
      seed % 4 == 0 ? testing::GenerateDynamicRequest(seed) : testing::GenerateRequest(seed);
  if (seed % 3 == 0) testing::AddSelection(seed, &request);
  if (seed % 7 < 3) testing::AddSharedPrefixes(seed, &request);
  if (seed % 5 == 0) request.options.mini_batches.max_delay = static_cast<uint32_t>(seed % 7);
  if (seed % 11 < 4) testing::AddLoads(seed, &request);
  if (seed % 13 < 3) testing::AddMultiples(seed, &request);
  return request;
}

// `wire` after sending and receiving.
template <typename Message>
Message Sent(const Message& wire) {
  Message received;
  EXPECT_TRUE(received.ParseFromString(wire.SerializeAsString()));
  return received;
}

TEST(RandomRequestsTest, ArriveAsTheyWereSent) {
  for (const uint64_t seed : testing::Seeds(500)) {
    testing::GeneratedRequest request = RandomRequest(seed);
    const v1::PlanBatchRequest wire = Sent(testing::WireRequest(request));
    const auto parsed = ParseRequest(wire);
    ASSERT_TRUE(parsed.ok()) << parsed.status() << "\n" << request.Describe();
    testing::GeneratedRequest received;
    received.lengths.assign(parsed->manifest.lengths.begin(), parsed->manifest.lengths.end());
    received.group_ids.assign(parsed->manifest.group_ids.begin(), parsed->manifest.group_ids.end());
    received.pad_to = parsed->manifest.pad_to;
    received.ranks.assign(parsed->manifest.ranks.begin(), parsed->manifest.ranks.end());
    received.ages.assign(parsed->manifest.ages.begin(), parsed->manifest.ages.end());
    received.shared_prefixes.assign(parsed->manifest.shared_prefixes.begin(),
                                    parsed->manifest.shared_prefixes.end());
    received.shared_with.assign(parsed->manifest.shared_with.begin(),
                                parsed->manifest.shared_with.end());
    received.loads = testing::CopyLoads(parsed->manifest);
    received.kinds.assign(parsed->manifest.kinds.begin(), parsed->manifest.kinds.end());
    received.options = parsed->options;
    // For later passes, the wire leaves out what the first pass decides.
    for (testing::GeneratedRequest* side : {&request, &received}) {
      for (size_t i = 1; i < side->options.passes.size(); ++i) {
        side->options.passes[i].sharding = side->options.passes[0].sharding;
        side->options.passes[i].sequence_counts = EqualCounts::kAny;
      }
    }
    ASSERT_EQ(received.Describe(), request.Describe());
  }
}

TEST(RandomRequestsTest, TheirPlansArriveAsTheyWereMade) {
  for (const uint64_t seed : testing::Seeds(300)) {
    const testing::GeneratedRequest request = RandomRequest(seed);
    const auto plan = testing::MakeCheckedPlan(request.manifest(), request.options);
    if (!plan.ok()) continue;
    v1::PlanBatchResponse response;
    FillResponse(*plan, absl::ZeroDuration(), &response);
    const auto received = ParseResponse(Sent(response));
    ASSERT_TRUE(received.ok()) << received.status();
    const absl::Status checked = CheckPlan(request.manifest(), request.options, *received);
    ASSERT_TRUE(checked.ok()) << checked << "\n" << request.Describe();
    ASSERT_EQ(received->fingerprint, plan->fingerprint);
  }
}

}  // namespace
}  // namespace batchplan
