#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "batchplan/client.h"
#include "tests/client/cpp/fake_server.h"
#include "tests/client/cpp/requests.h"

namespace batchplan {
namespace {

using ::testing::HasSubstr;

// Answers every call with one status, or with an empty plan if that is OK.
class FakeConnection final : public Connection {
 public:
  explicit FakeConnection(absl::Status status) : status_(std::move(status)) {}

  absl::StatusOr<v1::PlanBatchResponse> PlanBatch(const v1::PlanBatchRequest&,
                                                  const CallOptions& options) override {
    ++calls;
    const std::scoped_lock lock(mutex_);
    timeout_ = options.timeout;
    if (!status_.ok()) return status_;
    return v1::PlanBatchResponse();
  }

  absl::StatusOr<v1::JoinBatchResponse> JoinBatch(const v1::JoinBatchRequest&,
                                                  const CallOptions&) override {
    ++calls;
    if (!status_.ok()) return status_;
    return v1::JoinBatchResponse();
  }

  absl::StatusOr<v1::ReportStepResponse> ReportStep(const v1::ReportStepRequest&,
                                                    const CallOptions&) override {
    ++calls;
    if (!status_.ok()) return status_;
    return v1::ReportStepResponse();
  }

  // The timeout of the last PlanBatch.
  std::optional<absl::Duration> timeout() const {
    const std::scoped_lock lock(mutex_);
    return timeout_;
  }

  std::atomic<int> calls = 0;

 private:
  const absl::Status status_;
  mutable std::mutex mutex_;
  std::optional<absl::Duration> timeout_;
};

TEST(FallbackConnection, UnavailableIsPlannedBySecondaryCountedAndLogged) {
  std::vector<std::string> log;
  FallbackOptions options;
  options.on_fallback = [&](const v1::PlanBatchRequest& request, const absl::Status& why) {
    log.push_back(request.job_id() + ": " + std::string(why.message()));
  };
  const auto connection =
      MakeFallbackConnection(std::make_shared<FakeConnection>(absl::UnavailableError("no route")),
                             MakeInProcessConnection(), options);
  const v1::PlanBatchRequest request = RequestOf(200);
  const auto plan = Client(connection).PlanBatch(request);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->fingerprint(),
            Client(MakeInProcessConnection()).PlanBatch(request)->fingerprint());
  EXPECT_EQ(connection->fallback_count(), 1U);
  EXPECT_THAT(log, ::testing::ElementsAre("test: no route"));
}

TEST(FallbackConnection, UnreachableServerIsReplacedByThisProcess) {
  RemoteOptions hasty;
  hasty.initial_backoff = absl::Milliseconds(1);
  const auto connection = MakeFallbackConnection(
      MakeRemoteConnection("unix:/nonexistent/batchplan.sock", hasty), MakeInProcessConnection());
  testing::internal::CaptureStderr();
  const auto plan = Client(connection).PlanBatch(RequestOf(200), {.timeout = absl::Minutes(1)});
  const std::string log = testing::internal::GetCapturedStderr();
  EXPECT_TRUE(plan.ok()) << plan.status();
  EXPECT_THAT(log, HasSubstr("batchplan: fallback for job \"test\" step 0: "));
  EXPECT_EQ(std::count(log.begin(), log.end(), '\n'), 1);
}

TEST(FallbackConnection, AnswersAndRefusalsOfThePrimaryAreFinal) {
  for (const absl::Status& status :
       {absl::OkStatus(), absl::InvalidArgumentError("no"), absl::UnauthenticatedError("no"),
        absl::PermissionDeniedError("no")}) {
    const auto secondary = std::make_shared<FakeConnection>(absl::OkStatus());
    const auto connection =
        MakeFallbackConnection(std::make_shared<FakeConnection>(status), secondary);
    EXPECT_EQ(Client(connection).PlanBatch(RequestOf(20)).status(), status);
    EXPECT_EQ(secondary->calls, 0);
    EXPECT_EQ(connection->fallback_count(), 0U);
  }
}

TEST(FallbackConnection, WhatIsTheServersOwnTroubleIsPlannedBySecondary) {
  for (const absl::Status& status :
       {absl::CancelledError("no"), absl::DeadlineExceededError("no"),
        absl::ResourceExhaustedError("no"), absl::UnimplementedError("no"),
        absl::FailedPreconditionError("no"), absl::InternalError("no"), absl::UnknownError("no")}) {
    FallbackOptions quiet{[](const v1::PlanBatchRequest&, const absl::Status&) {}};
    const auto connection = MakeFallbackConnection(std::make_shared<FakeConnection>(status),
                                                   MakeInProcessConnection(), quiet);
    const auto plan = Client(connection).PlanBatch(RequestOf(20));
    EXPECT_TRUE(plan.ok()) << plan.status();
    EXPECT_EQ(connection->fallback_count(), 1U) << status;
  }
}

// A server that answers pings and health checks, but no plan, has half of the time.
TEST(FallbackConnection, ASilentCallLeavesTheFallbackHalfOfTheTime) {
  absl::Notification end;
  FakeServer server([&](int, v1::PlanBatchResponse*) {
    end.WaitForNotification();
    return grpc::Status::OK;
  });
  FallbackOptions quiet{[](const v1::PlanBatchRequest&, const absl::Status&) {}};
  const auto connection = MakeFallbackConnection(MakeRemoteConnection(server.target()),
                                                 MakeInProcessConnection(), quiet);
  const auto plan = Client(connection).PlanBatch(RequestOf(20), {.timeout = absl::Seconds(20)});
  end.Notify();
  EXPECT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(connection->fallback_count(), 1U);
}

TEST(FallbackConnection, SecondaryGetsTheRestOfTheTimeout) {
  const auto secondary = std::make_shared<FakeConnection>(absl::OkStatus());
  FallbackOptions quiet{[](const v1::PlanBatchRequest&, const absl::Status&) {}};
  const Client client(MakeFallbackConnection(
      std::make_shared<FakeConnection>(absl::UnavailableError("gone")), secondary, quiet));
  EXPECT_TRUE(client.PlanBatch(RequestOf(20), {.timeout = absl::Minutes(5)}).ok());
  ASSERT_TRUE(secondary->timeout().has_value());
  EXPECT_LE(*secondary->timeout(), absl::Minutes(5));
  EXPECT_GT(*secondary->timeout(), absl::Minutes(4));
  EXPECT_TRUE(client.PlanBatch(RequestOf(20)).ok());
  EXPECT_FALSE(secondary->timeout().has_value());
}

// Workers of one step that joined in two places would have two plans.
TEST(FallbackConnection, WhatWorkersShareIsNeverHandedToTheSecondary) {
  for (const absl::Status& status : {absl::OkStatus(), absl::UnavailableError("gone")}) {
    const auto primary = std::make_shared<FakeConnection>(status);
    const auto secondary = std::make_shared<FakeConnection>(absl::OkStatus());
    const auto connection = MakeFallbackConnection(primary, secondary);
    EXPECT_EQ(Client(connection).JoinBatch({}).status(), status);
    EXPECT_EQ(Client(connection).ReportStep({}).status(), status);
    EXPECT_EQ(primary->calls, 2);
    EXPECT_EQ(secondary->calls, 0);
    EXPECT_EQ(connection->fallback_count(), 0U);
  }
}

TEST(FallbackConnection, FittedCostsAreNotPlannedByAnythingElse) {
  const absl::Status gone = absl::UnavailableError("gone");
  const auto secondary = std::make_shared<FakeConnection>(absl::OkStatus());
  const auto connection = MakeFallbackConnection(std::make_shared<FakeConnection>(gone), secondary);
  v1::PlanBatchRequest request = RequestOf(20);
  request.mutable_cost_model()->set_fitted(true);
  EXPECT_EQ(Client(connection).PlanBatch(request).status(), gone);
  EXPECT_EQ(secondary->calls, 0);
  EXPECT_EQ(connection->fallback_count(), 0U);
}

TEST(FallbackConnection, CountsCallsOfAllThreads) {
  FallbackOptions quiet{[](const v1::PlanBatchRequest&, const absl::Status&) {}};
  const auto connection =
      MakeFallbackConnection(std::make_shared<FakeConnection>(absl::UnavailableError("gone")),
                             MakeInProcessConnection(), quiet);
  const v1::PlanBatchRequest request = RequestOf(20);
  {
    std::vector<std::jthread> threads;
    threads.reserve(4);
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([&] {
        for (int call = 0; call < 25; ++call) {
          EXPECT_TRUE(Client(connection).PlanBatch(request).ok());
        }
      });
    }
  }
  EXPECT_EQ(connection->fallback_count(), 100U);
}

}  // namespace
}  // namespace batchplan
