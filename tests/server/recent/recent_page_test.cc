// The content of the page of recent plans of a real server. Its looks are tested by
// tests/deploy/plans_page_test.py.

#include "server/recent/recent_page.h"

#include <gmock/gmock.h>
#include <google/protobuf/struct.pb.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "tests/server/service/requests.h"
#include "tests/server/telemetry/local_socket.h"
#include "tests/support/page_data.h"
#include "tests/support/test_server.h"

namespace batchplan {
namespace {

using ::google::protobuf::Struct;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

TEST(RecentPage, NothingWasPlanned) {
  const RecentPlans recent({});
  const auto page = FormatRecentPage(recent, std::nullopt, absl::FromUnixSeconds(1));
  ASSERT_TRUE(page.ok()) << page.status();
  ExpectStandsAlone(*page);
  EXPECT_EQ(EmbeddedJson(*page, "recent"), R"({"now":1000,"jobs":[],"shown":null,"plans":[]})");
  EXPECT_THAT(*page, Not(HasSubstr("id=\"response\"")));
  EXPECT_TRUE(absl::IsNotFound(FormatRecentPage(recent, "a", absl::Now()).status()));
}

ServerOptions WithHttp() {
  ServerOptions options = TestServer::Options();
  options.metrics_listen = "127.0.0.1:0";
  return options;
}

class RecentPageTest : public testing::Test {
 protected:
  std::string Get(const std::string& path) {
    return HttpGet(server_.server().metrics_port(), path);
  }

  // The page without the HTTP headers.
  std::string Page(const std::string& query = "") {
    const std::string answer = Get("/plans" + query);
    EXPECT_THAT(answer, StartsWith("HTTP/1.1 200 ")) << answer.substr(0, 200);
    return answer.substr(answer.find("\r\n\r\n") + 4);
  }

  v1::PlanBatchResponse Plan(const std::string& job, uint64_t step) {
    v1::PlanBatchRequest request = ValidRequest(50);
    request.set_job_id(job);
    request.set_step(step);
    v1::PlanBatchResponse response;
    EXPECT_TRUE(PlanBatch(*stub_, request, &response).ok());
    return response;
  }

  TestServer server_{WithHttp()};
  std::unique_ptr<v1::BatchPlanner::Stub> stub_ = server_.NewStub();
};

TEST_F(RecentPageTest, ShowsTheJobPlannedLast) {
  Plan("first", 1);
  const v1::PlanBatchResponse planned = Plan("second", 17);
  const std::string page = Page();
  ExpectStandsAlone(page);
  const auto recent = Embedded<Struct>(page, "recent");
  EXPECT_EQ(recent.fields().at("shown").string_value(), "second");
  const auto& jobs = recent.fields().at("jobs").list_value();
  ASSERT_EQ(jobs.values_size(), 2);
  const auto& second = jobs.values(0).struct_value().fields();
  EXPECT_EQ(second.at("jobId").string_value(), "second");
  EXPECT_EQ(second.at("binUtilization").list_value().values_size(), 1);
  const auto sentences = Embedded<Struct>(page, "sentences");
  EXPECT_EQ(sentences.fields().at("waiting").list_value().values_size(), 1);
  EXPECT_EQ(recent.fields().at("plans").list_value().values_size(), 1);
  const auto& plan = second.at("latest").struct_value().fields();
  const v1::PlanMetrics& metrics = planned.passes(0).metrics();
  EXPECT_EQ(plan.at("step").string_value(), "17");
  EXPECT_EQ(plan.at("sequences").number_value(), 50);
  EXPECT_EQ(plan.at("microbatches").number_value(), metrics.microbatches());
  EXPECT_NEAR(plan.at("binUtilization").number_value(), metrics.bin_utilization(), 1e-6);
  EXPECT_NEAR(plan.at("stepEfficiency").number_value(), metrics.step_efficiency(), 1e-6);

  const auto response = Embedded<v1::PlanBatchResponse>(page, "response");
  EXPECT_EQ(response.fingerprint(), planned.fingerprint());
  EXPECT_EQ(response.passes(0).sequence_lengths_size(), 50);
  const auto request = Embedded<v1::PlanBatchRequest>(page, "request");
  EXPECT_EQ(request.step(), 17U);
  EXPECT_TRUE(request.passes(0).has_packed());
  EXPECT_FALSE(request.has_manifest());
}

TEST_F(RecentPageTest, ShowsTheJobAskedFor) {
  Plan("first/a b&c", 1);
  Plan("second", 2);
  const std::string page = Page("?job_id=first%2Fa%20b%26c");
  EXPECT_EQ(Embedded<Struct>(page, "recent").fields().at("shown").string_value(), "first/a b&c");
  EXPECT_EQ(Embedded<v1::PlanBatchRequest>(page, "request").step(), 1U);
  EXPECT_THAT(Get("/plans?job_id=third"),
              AllOf(StartsWith("HTTP/1.1 404 "), HasSubstr("job_id=\"third\"")));
}

TEST_F(RecentPageTest, ShowsJoinedStepsOnce) {
  v1::JoinBatchRequest part;
  part.set_world_size(2);
  *part.mutable_request() = ValidRequest(30);
  part.mutable_request()->set_job_id("joined");
  part.mutable_request()->mutable_topology()->set_data_parallel(1);
  for (const uint32_t worker : {1U, 0U}) {
    part.set_worker(worker);
    part.mutable_timeout()->set_nanos(worker == 1 ? 1 : 0);
    part.mutable_timeout()->set_seconds(worker == 1 ? 0 : 60);
    grpc::ClientContext context;
    context.set_deadline(GenerousDeadline());
    v1::JoinBatchResponse response;
    EXPECT_EQ(stub_->JoinBatch(&context, part, &response).ok(), worker == 0);
  }
  const std::string page = Page();
  const auto recent = Embedded<Struct>(page, "recent");
  const auto& plans = recent.fields().at("plans").list_value();
  ASSERT_EQ(plans.values_size(), 1);
  const auto& plan = plans.values(0).struct_value().fields();
  EXPECT_EQ(plan.at("sequences").number_value(), 60);
  EXPECT_EQ(Embedded<v1::PlanBatchResponse>(page, "response").passes(0).sequence_lengths_size(),
            60);
}

TEST_F(RecentPageTest, ShowsWhatAStepTookBesideWhatWasPredicted) {
  Plan("reports", 1);
  Plan("reports", 2);
  v1::ReportStepRequest report = ReportOf("reports", 1);
  for (int i = 0; i < report.microbatches_size(); ++i) {
    v1::MicrobatchTiming* timing = report.mutable_microbatches(i);
    timing->set_rank(static_cast<uint32_t>(i));
    timing->set_slot(0);
    timing->set_milliseconds(i == 0 ? 40 : 20);
  }
  report.set_data_parallel(4);
  report.set_predicted_step_time(30);
  grpc::ClientContext context;
  context.set_deadline(GenerousDeadline());
  v1::ReportStepResponse response;
  ASSERT_TRUE(stub_->ReportStep(&context, report, &response).ok());
  const auto recent = Embedded<Struct>(Page(), "recent");
  const auto& plans = recent.fields().at("plans").list_value();
  ASSERT_EQ(plans.values_size(), 2);
  const auto& reported = plans.values(0).struct_value().fields().at("measured");
  const auto& measured = reported.struct_value().fields();
  EXPECT_NEAR(measured.at("milliseconds").number_value(), 40, 1e-6);
  EXPECT_NEAR(measured.at("predictedMilliseconds").number_value(), 30, 1e-6);
  EXPECT_NEAR(measured.at("waitedShare").number_value(), 0.375, 1e-6);
  EXPECT_TRUE(plans.values(1).struct_value().fields().at("measured").has_null_value());
  EXPECT_NEAR(server_.Metric("batchplan_job_measured_step_seconds_sum{job_id=\"reports\"}"), 0.04,
              1e-9);
}

TEST_F(RecentPageTest, NamesStayText) {
  const std::string name = "</script><script>alert(1)</script>";
  Plan(name, 1);
  const std::string page = Page();
  EXPECT_THAT(page, Not(HasSubstr("alert(1)</script>")));
  EXPECT_EQ(Embedded<Struct>(page, "recent").fields().at("shown").string_value(), name);
}

TEST(RecentPageOff, IsNotServed) {
  ServerOptions options = WithHttp();
  options.recent_plans = 0;
  TestServer server(options);
  EXPECT_THAT(HttpGet(server.server().metrics_port(), "/plans"),
              AllOf(StartsWith("HTTP/1.1 404 "), Not(HasSubstr("/plans"))));
}

}  // namespace
}  // namespace batchplan
