// Plans over the wire: a real server, a real client.

#include "server/service/rpc/planner_service.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include "proto/batchplan/v1/convert.h"
#include "server/planner/make_plan.h"
#include "tests/server/service/requests.h"
#include "tests/support/captured_log.h"
#include "tests/support/test_server.h"

namespace batchplan {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::Matcher;

constexpr const char* kPlanBatchMethod = "/batchplan.v1.BatchPlanner/PlanBatch";

std::string FingerprintInProcess(const v1::PlanBatchRequest& request) {
  const absl::StatusOr<ParsedRequest> parsed = ParseRequest(request);
  if (!parsed.ok()) return parsed.status().ToString();
  const absl::StatusOr<Plan> plan = MakePlan(parsed->manifest, parsed->options);
  return plan.ok() ? plan->fingerprint : plan.status().ToString();
}

ServerOptions VerifyingServer() {
  ServerOptions options = TestServer::Options();
  options.verify_plans = true;
  return options;
}

TEST(PlannerServiceTest, APlanOverTheWireIsThePlanInProcess) {
  TestServer server(VerifyingServer());
  auto stub = server.NewStub();
  for (const int sequences : {4, 100, 20'000}) {
    const v1::PlanBatchRequest request = ValidRequest(sequences);
    v1::PlanBatchResponse response;
    const grpc::Status status = PlanBatch(*stub, request, &response);
    ASSERT_TRUE(status.ok()) << status.error_message();
    EXPECT_EQ(response.fingerprint(), FingerprintInProcess(request));
    EXPECT_EQ(response.passes(0).sequence_index_size(), sequences);
  }
}

TEST(PlannerServiceTest, ThreadsAndConcurrentCallersDoNotChangeAPlan) {
  const v1::PlanBatchRequest request = ValidRequest(2000);
  const std::string expected = FingerprintInProcess(request);
  for (const int threads : {1, 4}) {
    ServerOptions options = VerifyingServer();
    options.planning_threads = threads;
    TestServer server(options);
    std::vector<std::string> fingerprints(32);
    {
      std::vector<std::jthread> callers;
      for (size_t caller = 0; caller < 8; ++caller) {
        callers.emplace_back([&, caller] {
          auto stub = server.NewStub();
          for (size_t call = caller; call < fingerprints.size(); call += 8) {
            v1::PlanBatchResponse response;
            const grpc::Status status = PlanBatch(*stub, request, &response);
            fingerprints[call] = status.ok() ? response.fingerprint() : status.error_message();
          }
        });
      }
    }
    EXPECT_THAT(fingerprints, Each(expected));
  }
}

TEST(PlannerServiceTest, BalancedIsWhatARequestWithoutAPresetMeans) {
  TestServer server(VerifyingServer());
  auto stub = server.NewStub();
  v1::PlanBatchRequest request = ValidRequest();
  request.mutable_passes(0)->clear_layout();
  const auto plan = [&](const char* preset, v1::Effort effort) {
    request.set_preset(preset);
    request.set_effort(effort);
    v1::PlanBatchResponse response;
    const grpc::Status status = PlanBatch(*stub, request, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return response;
  };
  const v1::PlanBatchResponse balanced = plan("balanced", v1::EFFORT_UNSPECIFIED);
  const v1::PlanMetrics& metrics = balanced.passes(0).metrics();
  EXPECT_GE(metrics.predicted_step_time(), metrics.lower_bound_step_time());
  EXPECT_EQ(plan("", v1::EFFORT_DEFAULT).fingerprint(), balanced.fingerprint());
  for (const char* preset : {"nemo_rl_packing", "roll_packing", "mindspeed_rl", "verl"}) {
    EXPECT_GE(plan(preset, v1::EFFORT_UNSPECIFIED).passes(0).metrics().predicted_step_time(),
              metrics.predicted_step_time())
        << preset;
  }
  plan("", v1::EFFORT_FAST);
  plan("", v1::EFFORT_THOROUGH);
  request.mutable_passes(0)->set_sharding(v1::SHARDING_BALANCED);
  EXPECT_EQ(plan("verl", v1::EFFORT_UNSPECIFIED).passes_size(), 1);
}

TEST(PlannerServiceTest, SumsBeyond32BitsAreExact) {
  TestServer server(VerifyingServer());
  constexpr uint32_t kLongest = std::numeric_limits<uint32_t>::max();
  v1::PlanBatchRequest request = ValidRequest(0, 1);
  for (int i = 0; i < 4; ++i) request.mutable_manifest()->add_lengths(kLongest);
  request.mutable_passes(0)->set_max_tokens_per_microbatch(kLongest);
  v1::PlanBatchResponse response;
  const grpc::Status status = PlanBatch(*server.NewStub(), request, &response);
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(response.passes(0).metrics().true_tokens(), 4ULL * kLongest);
  EXPECT_EQ(response.passes(0).metrics().microbatches(), 4U);
}

int Occurrences(const std::string& text, const std::string& part) {
  int count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

TEST(PlannerServiceTest, EveryCallLeavesOneLineInTheLog) {
  CaptureLog();
  {
    TestServer server;
    v1::PlanBatchRequest request = ValidRequest(100);
    request.set_job_id("run \"7\"");
    request.set_step(17);
    EXPECT_TRUE(PlanBatch(*server.NewStub(), request).ok());
    request.clear_passes();
    EXPECT_FALSE(PlanBatch(*server.NewStub(), request).ok());
  }
  const std::string log = CapturedLog();
  EXPECT_EQ(Occurrences(log, " event="), 2) << log;
  EXPECT_THAT(log, HasSubstr("INFO event=PlanBatch request_id=r-1 job=\"run \\\"7\\\"\" step=17 "
                             "sequences=100 microbatches="));
  EXPECT_THAT(log, HasSubstr(" code=OK\n"));
  EXPECT_THAT(log, HasSubstr(" code=INVALID_ARGUMENT error=\"passes is empty"));
}

TEST(PlannerServiceTest, BytesThatAreNoRequestAreInvalid) {
  TestServer server;
  auto channel = server.NewChannel();
  std::string answer;
  for (const std::string& bytes : {std::string("garbage"), std::string("\x2a\xff\xff", 3)}) {
    const grpc::Status status = CallBytes(channel, kPlanBatchMethod, bytes, &answer);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
    EXPECT_THAT(status.error_message(), HasSubstr("not a batchplan.v1.PlanBatchRequest"));
  }
  const std::string not_utf8("\x0a\x02\xff\xfe", 4);  // job_id = ff fe
  const grpc::Status status = CallBytes(channel, kPlanBatchMethod, not_utf8, &answer);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(),
              HasSubstr("job_id \"\\377\\376\" has no character at byte 0"));
  EXPECT_TRUE(PlanBatch(*server.NewStub(), ValidRequest()).ok());
}

TEST(PlannerServiceTest, WhatANewerVersionWouldUnderstandIsRefusedByNumber) {
  TestServer server;
  const auto stub = server.NewStub();
  v1::PlanBatchRequest request = ValidRequest();
  const auto add_field = [](google::protobuf::Message* message) {
    message->GetReflection()->MutableUnknownFields(message)->AddVarint(99, 1);
  };
  const auto expect_refused = [](const grpc::Status& status, const std::string& message) {
    EXPECT_EQ(status.error_code(), grpc::StatusCode::UNIMPLEMENTED);
    EXPECT_EQ(status.error_message(),
              "field 99 of batchplan.v1." + message + " is not known to this version");
  };
  // At the top, one level below, in an array's entry, and two levels below.
  add_field(&request);
  expect_refused(PlanBatch(*stub, request), "PlanBatchRequest");
  request = ValidRequest();
  add_field(request.mutable_topology());
  expect_refused(PlanBatch(*stub, request), "Topology");
  request = ValidRequest();
  add_field(request.mutable_passes(0));
  expect_refused(PlanBatch(*stub, request), "Pass");
  request = ValidRequest();
  add_field(request.mutable_cost_model()->mutable_shape());
  expect_refused(PlanBatch(*stub, request), "ModelShape");

  grpc::ClientContext context;
  context.set_deadline(GenerousDeadline());
  v1::ReportStepRequest report = ReportOf("test", 1);
  add_field(report.mutable_microbatches(2));
  v1::ReportStepResponse reported;
  expect_refused(stub->ReportStep(&context, report, &reported), "MicrobatchTiming");
  EXPECT_TRUE(PlanBatch(*stub, ValidRequest()).ok());
}

TEST(PlannerServiceTest, ARequestOverTheMessageLimitIsRefused) {
  ServerOptions options = TestServer::Options();
  options.max_message_bytes = 4096;
  TestServer server(options);
  auto stub = server.NewStub();
  const grpc::Status status = PlanBatch(*stub, ValidRequest(10'000));
  EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_THAT(status.error_message(), HasSubstr("4096"));
  EXPECT_TRUE(PlanBatch(*stub, ValidRequest(10)).ok());
}

TEST(PlannerServiceTest, AResponseOverTheMessageLimitIsRefused) {
  ServerOptions options = TestServer::Options();
  options.max_message_bytes = 1024;
  TestServer server(options);
  auto stub = server.NewStub();
  v1::PlanBatchRequest request = ValidRequest(0);
  for (int i = 0; i < 900; ++i) request.mutable_manifest()->add_lengths(1);
  const grpc::Status status = PlanBatch(*stub, request);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_THAT(status.error_message(),
              AllOf(HasSubstr("the plan takes"), HasSubstr("max_message_bytes=1024")));
  EXPECT_TRUE(PlanBatch(*stub, ValidRequest(10)).ok());
}

TEST(PlannerServiceTest, TheDefaultLimitHoldsAMillionSequences) {
  TestServer server;
  v1::PlanBatchResponse response;
  const grpc::Status status = PlanBatch(*server.NewStub(), ValidRequest(1'000'000, 64), &response);
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(response.passes(0).sequence_index_size(), 1'000'000);
}

struct WrongInput {
  const char* name;
  std::function<void(v1::PlanBatchRequest&)> spoil;
  grpc::StatusCode code;
  Matcher<const std::string&> message;
};

void PrintTo(const WrongInput& input, std::ostream* out) { *out << input.name; }

class WrongInputTest : public ::testing::TestWithParam<WrongInput> {};

TEST_P(WrongInputTest, IsRefusedByNameAndTheServerKeepsServing) {
  TestServer server(VerifyingServer());
  auto stub = server.NewStub();
  v1::PlanBatchRequest request = ValidRequest();
  GetParam().spoil(request);
  const grpc::Status status = PlanBatch(*stub, request);
  EXPECT_EQ(status.error_code(), GetParam().code);
  EXPECT_THAT(status.error_message(), GetParam().message);
  EXPECT_TRUE(PlanBatch(*stub, ValidRequest()).ok());
}

constexpr auto kInvalid = grpc::StatusCode::INVALID_ARGUMENT;

// One for each place that can refuse: the limits before parsing, the conversion, the planner, and
// the job's fit.
INSTANTIATE_TEST_SUITE_P(
    Everywhere, WrongInputTest,
    ::testing::Values(
        WrongInput{"AnIdOverTheLimit",
                   [](auto& request) { request.set_job_id(std::string(129, 'x')); }, kInvalid,
                   HasSubstr("job_id has 129 bytes, must have at most 128")},
        WrongInput{"AnUnknownPresetOfAMegabyte",
                   [](auto& request) { request.set_preset(std::string(1 << 20, 'x')); },
                   grpc::UNIMPLEMENTED, HasSubstr("xxx")},
        WrongInput{"ALengthOverBudget",
                   [](auto& request) { request.mutable_manifest()->set_lengths(17, 9000); },
                   kInvalid,
                   AllOf(HasSubstr("manifest.lengths[17] is 9000"),
                         HasSubstr("passes[0].max_tokens_per_microbatch is 8192"))},
        WrongInput{"AFittedCostModel",
                   [](auto& request) { request.mutable_cost_model()->set_fitted(true); },
                   grpc::FAILED_PRECONDITION, HasSubstr("cost_model.fitted")}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace batchplan
