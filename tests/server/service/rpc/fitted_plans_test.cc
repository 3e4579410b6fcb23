// ReportStep over gRPC, and plans with the costs fitted to reports.

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/server/service/requests.h"
#include "tests/support/test_server.h"

namespace batchplan {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

grpc::Status Report(const TestServer& server, uint64_t step, v1::ReportStepResponse* response) {
  grpc::ClientContext context;
  context.set_deadline(GenerousDeadline());
  return server.NewStub()->ReportStep(&context, ReportOf("fitted", step), response);
}

v1::PlanBatchRequest FittedRequest() {
  v1::PlanBatchRequest request = ValidRequest();
  request.set_job_id("fitted");
  request.mutable_cost_model()->set_fitted(true);
  return request;
}

TEST(FittedPlans, AreMadeWithTheJobsOwnCostsAndSayWhich) {
  const TestServer server;
  v1::ReportStepResponse fit;
  for (uint64_t step = 0; step < 50; ++step) ASSERT_TRUE(Report(server, step, &fit).ok());
  EXPECT_EQ(fit.samples(), 200U);
  EXPECT_NEAR(fit.fitted().per_token(), 0.01, 0.0002);
  EXPECT_NEAR(fit.fitted().per_token_squared(), 2e-6, 4e-8);
  EXPECT_NEAR(fit.fitted().per_microbatch(), 3, 0.06);
  // The answer has milliseconds, metrics have seconds; they agree in the digits that are shown.
  for (const auto& [series, value] : std::vector<std::pair<std::string, double>>{
           {"batchplan_job_fitted_cost_seconds{coefficient=\"per_token\",job_id=\"fitted\"}",
            fit.fitted().per_token() / 1000},
           {"batchplan_job_fitted_cost_seconds{coefficient=\"per_token_squared\",job_id="
            "\"fitted\"}",
            fit.fitted().per_token_squared() / 1000},
           {"batchplan_job_fitted_cost_seconds{coefficient=\"per_microbatch\",job_id=\"fitted\"}",
            fit.fitted().per_microbatch() / 1000},
           {"batchplan_job_fit_error_ratio{job_id=\"fitted\"}", fit.fit_error()},
           {"batchplan_job_fit_samples{job_id=\"fitted\"}", 200}}) {
    EXPECT_NEAR(server.Metric(series), value, 1e-5 * value) << series;
  }

  grpc::ClientContext context;
  v1::PlanBatchResponse plan;
  const grpc::Status status = server.NewStub()->PlanBatch(&context, FittedRequest(), &plan);
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(plan.cost_model_used().per_token(), fit.fitted().per_token());

  // The plan is a pure function of the request and these costs.
  v1::PlanBatchRequest literal = FittedRequest();
  *literal.mutable_cost_model() = plan.cost_model_used();
  grpc::ClientContext again;
  v1::PlanBatchResponse same;
  ASSERT_TRUE(server.NewStub()->PlanBatch(&again, literal, &same).ok());
  EXPECT_EQ(same.fingerprint(), plan.fingerprint());
}

TEST(FittedPlans, WhatGroupsOfSeveralSizesExchangeIsShownBySize) {
  const TestServer server;
  v1::ReportStepResponse fit;
  for (uint64_t step = 0; step < 20; ++step) {
    v1::ReportStepRequest report = ReportOf("fitted", step);
    for (int i = 0; i < report.microbatches_size(); ++i) {
      v1::MicrobatchTiming* timing = report.mutable_microbatches(i);
      const uint32_t ranks = std::vector<uint32_t>{1, 2, 12}[static_cast<size_t>(i) % 3];
      timing->set_context_parallel(ranks);
      // 3 of it for the micro-batch; 0.002 for each token that other ranks hold.
      timing->set_milliseconds((timing->milliseconds() - 3) / ranks + 3 +
                               0.002 * static_cast<double>(timing->tokens()) * (ranks - 1) / ranks);
    }
    grpc::ClientContext context;
    context.set_deadline(GenerousDeadline());
    ASSERT_TRUE(server.NewStub()->ReportStep(&context, report, &fit).ok());
  }
  const std::string series = "batchplan_job_fitted_exchange_seconds{context_parallel=\"";
  EXPECT_NEAR(server.Metric(series + "2\",job_id=\"fitted\"}"), 2e-6, 2e-8);
  EXPECT_NEAR(server.Metric(series + "other\",job_id=\"fitted\"}"), 2e-6, 2e-8);
}

// A patch costs 0.05 ms.
TEST(FittedPlans, CostLoadsThatTheBatchHas) {
  const TestServer server;
  v1::ReportStepResponse fit;
  for (uint64_t step = 0; step < 30; ++step) {
    v1::ReportStepRequest report = ReportOf("fitted", step);
    report.add_loads("patches");
    for (int i = 0; i < report.microbatches_size(); ++i) {
      v1::MicrobatchTiming* timing = report.mutable_microbatches(i);
      timing->add_loads(256.0 * static_cast<double>((step * 5 + static_cast<uint64_t>(i) * 3) % 7));
      timing->set_milliseconds(timing->milliseconds() + 0.05 * timing->loads(0));
    }
    grpc::ClientContext context;
    context.set_deadline(GenerousDeadline());
    ASSERT_TRUE(server.NewStub()->ReportStep(&context, report, &fit).ok());
  }
  ASSERT_EQ(fit.fitted().loads_size(), 1);
  EXPECT_NEAR(fit.fitted().loads(0).per_unit(), 0.05, 1e-3);
  EXPECT_NEAR(
      server.Metric("batchplan_job_fitted_load_seconds{job_id=\"fitted\",load=\"patches\"}"), 5e-5,
      1e-6);

  const auto stub = server.NewStub();
  v1::PlanBatchRequest request = FittedRequest();
  v1::PlanBatchResponse plan;
  grpc::Status status = PlanBatch(*stub, request, &plan);
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(plan.cost_model_used().loads_size(), 0);

  v1::Load* load = request.mutable_manifest()->add_loads();
  load->set_name("patches");
  for (int i = 0; i < request.manifest().lengths_size(); ++i) load->add_values(256.0 * (i % 5));
  status = PlanBatch(*stub, request, &plan);
  ASSERT_TRUE(status.ok()) << status.error_message();
  ASSERT_EQ(plan.cost_model_used().loads_size(), 1);
  EXPECT_EQ(plan.cost_model_used().loads(0).per_unit(), fit.fitted().loads(0).per_unit());

  // Workers that join with parts of the batch agree: the whole batch has the load.
  v1::JoinBatchRequest part;
  *part.mutable_request() = request;
  part.mutable_request()->mutable_cost_model()->add_loads()->set_load("patches");
  part.mutable_request()->mutable_cost_model()->mutable_loads(0)->set_separate(true);
  part.set_world_size(1);
  v1::JoinBatchResponse joined;
  grpc::ClientContext context;
  context.set_deadline(GenerousDeadline());
  status = stub->JoinBatch(&context, part, &joined);
  ASSERT_TRUE(status.ok()) << status.error_message();
  ASSERT_EQ(joined.plan().cost_model_used().loads_size(), 1);
  EXPECT_TRUE(joined.plan().cost_model_used().loads(0).separate());
  EXPECT_EQ(joined.plan().cost_model_used().loads(0).per_unit(), fit.fitted().loads(0).per_unit());
}

TEST(FittedPlans, WithoutReportsAreRefusedByJob) {
  const TestServer server;
  grpc::ClientContext context;
  v1::PlanBatchResponse plan;
  const grpc::Status status = server.NewStub()->PlanBatch(&context, FittedRequest(), &plan);
  EXPECT_EQ(status.error_code(), grpc::FAILED_PRECONDITION);
  EXPECT_THAT(status.error_message(), AllOf(HasSubstr("fitted"), HasSubstr("ReportStep")));
}

// Workers that join while the fit changes still get one plan.
TEST(FittedPlans, AreOneForAllWorkersOfAStep) {
  const TestServer server;
  v1::ReportStepResponse fit;
  for (uint64_t step = 0; step < 50; ++step) ASSERT_TRUE(Report(server, step, &fit).ok());
  std::vector<v1::JoinBatchResponse> answers(3);
  std::vector<std::jthread> workers;
  for (uint32_t worker = 0; worker < answers.size(); ++worker) {
    workers.emplace_back([&, worker] {
      v1::JoinBatchRequest part;
      *part.mutable_request() = FittedRequest();
      part.set_worker(worker);
      part.set_world_size(static_cast<uint32_t>(answers.size()));
      grpc::ClientContext context;
      context.set_deadline(GenerousDeadline());
      const grpc::Status status = server.NewStub()->JoinBatch(&context, part, &answers[worker]);
      EXPECT_TRUE(status.ok()) << status.error_message();
    });
  }
  for (uint64_t step = 50; step < 60; ++step) ASSERT_TRUE(Report(server, step, &fit).ok());
  workers.clear();
  for (const v1::JoinBatchResponse& answer : answers) {
    EXPECT_EQ(answer.plan().fingerprint(), answers[0].plan().fingerprint());
    EXPECT_EQ(answer.plan().cost_model_used().per_token(),
              answers[0].plan().cost_model_used().per_token());
  }
}

TEST(FittedPlans, WrongReportIsRefusedByField) {
  const TestServer server;
  v1::ReportStepRequest report = ReportOf("fitted", 1);
  report.mutable_microbatches(2)->set_milliseconds(-1);
  grpc::ClientContext context;
  v1::ReportStepResponse response;
  const grpc::Status status = server.NewStub()->ReportStep(&context, report, &response);
  EXPECT_EQ(status.error_code(), grpc::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), HasSubstr("microbatches[2].milliseconds is -1"));
}

}  // namespace
}  // namespace batchplan
