#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/planner/make_plan.h"
#include "tests/support/generated_request.h"

namespace batchplan {
namespace {

std::string Outcome(const testing::GeneratedRequest& request) {
  const absl::StatusOr<Plan> plan = MakePlan(request.manifest(), request.options);
  return plan.ok() ? plan->fingerprint : plan.status().ToString();
}

TEST(PlannerThreadsTest, ThreadsAtOnceMakeTheSamePlans) {
  constexpr uint64_t kRequests = 60;
  std::vector<testing::GeneratedRequest> requests;
  std::vector<std::string> alone;
  for (uint64_t seed = 0; seed < kRequests; ++seed) {
    requests.push_back(seed % 2 == 0 ? testing::GenerateRequest(seed)
                                     : testing::GeneratePresetRequest("balanced", seed));
    alone.push_back(Outcome(requests.back()));
  }
  std::vector<std::vector<std::string>> together(4);
  std::vector<std::thread> threads;
  for (std::vector<std::string>& outcomes : together) {
    threads.emplace_back([&] {
      for (const testing::GeneratedRequest& request : requests)
        outcomes.push_back(Outcome(request));
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(together, ::testing::Each(alone));
}

}  // namespace
}  // namespace batchplan
