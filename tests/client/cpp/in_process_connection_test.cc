#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "batchplan/client.h"
#include "tests/client/cpp/requests.h"

namespace batchplan {
namespace {

using ::testing::HasSubstr;

TEST(InProcessConnection, PlansAVerifiedPlan) {
  const Client client(MakeInProcessConnection({.verify_plans = true}));
  const auto plan = client.PlanBatch(RequestOf(500));
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->passes(0).sequence_index_size(), 500);
  EXPECT_EQ(plan->fingerprint().size(), 64U);
  EXPECT_FALSE(plan->planner_version().empty());
}

TEST(InProcessConnection, RefusalNamesTheField) {
  v1::PlanBatchRequest request = RequestOf(20);
  request.mutable_passes(0)->set_max_tokens_per_microbatch(0);
  const auto plan = Client(MakeInProcessConnection()).PlanBatch(request);
  EXPECT_TRUE(absl::IsInvalidArgument(plan.status())) << plan.status();
  EXPECT_THAT(std::string(plan.status().message()), HasSubstr("max_tokens_per_microbatch"));
}

// As on a server: a plan that ignores a field is no plan for the request.
TEST(InProcessConnection, FieldsOfALaterVersionAreUnimplemented) {
  v1::PlanBatchRequest request = RequestOf(20);
  v1::Pass* pass = request.mutable_passes(0);
  pass->GetReflection()->MutableUnknownFields(pass)->AddVarint(99, 1);
  const absl::Status status = Client(MakeInProcessConnection()).PlanBatch(request).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_EQ(status.message(), "field 99 of batchplan.v1.Pass is not known to this version");
}

TEST(InProcessConnection, FittedCostsNeedAServer) {
  v1::PlanBatchRequest request = RequestOf(20);
  request.mutable_cost_model()->set_fitted(true);
  const absl::Status status = Client(MakeInProcessConnection()).PlanBatch(request).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("cost_model.fitted"));
}

TEST(InProcessConnection, PassedDeadlineIsDeadlineExceeded) {
  const Client client(MakeInProcessConnection());
  const auto never = client.PlanBatch(RequestOf(20), {.timeout = absl::ZeroDuration()});
  EXPECT_TRUE(absl::IsDeadlineExceeded(never.status())) << never.status();
  const auto late = client.PlanBatch(RequestOf(2'000'000), {.timeout = absl::Milliseconds(1)});
  EXPECT_TRUE(absl::IsDeadlineExceeded(late.status())) << late.status();
}

TEST(InProcessConnection, WhatWorkersShareNeedsAServer) {
  const Client client(MakeInProcessConnection());
  const absl::Status joined = client.JoinBatch({}).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(joined)) << joined;
  EXPECT_THAT(std::string(joined.message()), ::testing::StartsWith("JoinBatch needs a server"));
  const absl::Status reported = client.ReportStep({}).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(reported)) << reported;
  EXPECT_THAT(std::string(reported.message()), ::testing::StartsWith("ReportStep needs a server"));
}

TEST(InProcessConnection, DistantDeadlineDoesNotHoldTheCallBack) {
  const auto plan =
      Client(MakeInProcessConnection()).PlanBatch(RequestOf(100), {.timeout = absl::Hours(1)});
  EXPECT_TRUE(plan.ok()) << plan.status();
}

TEST(InProcessConnection, ThreadsShareOneClient) {
  const Client client(MakeInProcessConnection());
  const v1::PlanBatchRequest request = RequestOf(1000);
  std::vector<std::string> fingerprints(4);
  {
    std::vector<std::jthread> threads;
    threads.reserve(fingerprints.size());
    for (std::string& fingerprint : fingerprints) {
      threads.emplace_back([&] {
        const auto plan = client.PlanBatch(request, {.timeout = absl::Minutes(1)});
        fingerprint = plan.ok() ? plan->fingerprint() : plan.status().ToString();
      });
    }
  }
  EXPECT_THAT(fingerprints, ::testing::Each(fingerprints[0]));
  EXPECT_EQ(fingerprints[0].size(), 64U) << fingerprints[0];
}

}  // namespace
}  // namespace batchplan
