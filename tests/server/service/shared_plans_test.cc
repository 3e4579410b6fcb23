// Replicas that share a Redis, of which one plans a step for all.

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <semaphore>
#include <stop_token>
#include <thread>
#include <vector>

#include "server/planner/make_plan.h"
#include "tests/server/service/held_planner.h"
#include "tests/support/redis_server.h"
#include "tests/support/test_server.h"

namespace batchplan {
namespace {

constexpr uint32_t kWorkers = 6;

v1::JoinBatchRequest PartOf(uint32_t worker, uint64_t step) {
  v1::JoinBatchRequest part;
  part.set_worker(worker);
  part.set_world_size(kWorkers);
  v1::PlanBatchRequest& request = *part.mutable_request();
  request.set_job_id("shared");
  request.set_step(step);
  request.mutable_topology()->set_data_parallel(2);
  request.add_passes()->set_max_tokens_per_microbatch(4096);
  for (uint32_t i = 0; i < 20; ++i) {
    request.mutable_manifest()->add_lengths(1 + (worker * 104729 + i * 1299709) % 3000);
  }
  return part;
}

struct Answer {
  grpc::Status status;
  v1::JoinBatchResponse response;
};

using Servers = std::vector<std::unique_ptr<TestServer>>;

// The workers of a step, spread over the servers, and what they are told.
class Workers {
 public:
  Workers(const Servers& servers, uint64_t step,
          void (*change)(v1::JoinBatchRequest& part) = nullptr) {
    for (uint32_t worker = 0; worker < kWorkers; ++worker) {
      threads_.emplace_back([this, &servers, worker, step, change] {
        v1::JoinBatchRequest part = PartOf(worker, step);
        if (change != nullptr) change(part);
        grpc::ClientContext context;
        context.set_deadline(std::chrono::system_clock::now() + std::chrono::minutes(1));
        answers_[worker].status = servers[worker % servers.size()]->NewStub()->JoinBatch(
            &context, part, &answers_[worker].response);
        answered_.release();
      });
    }
  }

  void WaitForAnswers(uint32_t count) {
    for (uint32_t i = 0; i < count; ++i) answered_.acquire();
  }

  std::vector<Answer> Answers() {
    threads_.clear();
    return answers_;
  }

 private:
  std::vector<Answer> answers_ = std::vector<Answer>(kWorkers);
  std::counting_semaphore<> answered_{0};
  std::vector<std::jthread> threads_;
};

std::vector<Answer> JoinAll(const Servers& servers, uint64_t step,
                            void (*change)(v1::JoinBatchRequest& part) = nullptr) {
  return Workers(servers, step, change).Answers();
}

void ExpectOnePlan(const std::vector<Answer>& answers) {
  for (const Answer& answer : answers) {
    ASSERT_TRUE(answer.status.ok()) << answer.status.error_message();
    EXPECT_EQ(answer.response.plan().fingerprint(), answers[0].response.plan().fingerprint());
  }
}

ServerOptions Sharing(const testing::RedisServer& redis) {
  ServerOptions options = TestServer::Options();
  options.rendezvous_store = redis.url();
  return options;
}

TEST(SharedPlans, OneOfThreeReplicasPlansAStepForAll) {
  const testing::RedisServer redis;
  std::atomic<uint64_t> plans = 0;
  Servers servers;
  for (int i = 0; i < 3; ++i) {
    servers.push_back(std::make_unique<TestServer>(
        Sharing(redis),
        [&](const Manifest& manifest, const PlanOptions& options, const std::stop_token& stop) {
          ++plans;
          return MakePlan(manifest, options, stop);
        }));
  }
  constexpr uint64_t kSteps = 10;
  for (uint64_t step = 0; step < kSteps; ++step) {
    const std::vector<Answer> answers = JoinAll(servers, step);
    ExpectOnePlan(answers);
    for (const Answer& answer : answers) {
      EXPECT_EQ(answer.response.SerializeAsString(), answers[0].response.SerializeAsString());
    }
  }
  EXPECT_EQ(plans, kSteps);
  double outcomes = 0;
  double read = 0;
  for (const auto& server : servers) {
    outcomes += server->Metric("batchplan_store_seconds_count{operation=\"put_outcome\"}");
    read += server->Metric("batchplan_store_seconds_count{operation=\"plan\"}");
  }
  EXPECT_EQ(outcomes, kSteps);
  EXPECT_GE(read, kSteps);

  // Slices are cut from it too, and whoever asks is told what was planned.
  ExpectOnePlan(JoinAll(servers, kSteps, [](v1::JoinBatchRequest& part) {
    part.set_own_slice_only(true);
    part.set_own_part_only(true);
    part.set_data_parallel_rank(part.worker() % 2);
  }));
  EXPECT_EQ(plans, kSteps + 1);
  const std::vector<Answer> told = JoinAll(
      servers, kSteps + 1, [](v1::JoinBatchRequest& part) { part.set_return_request(true); });
  ExpectOnePlan(told);
  for (const Answer& answer : told) {
    EXPECT_EQ(answer.response.request().manifest().lengths_size(), 120);
  }
}

// One whose planner hangs is as good as dead to the others.
TEST(SharedPlans, AReplicaThatHangsPlanningHoldsUpNobodyElse) {
  const testing::RedisServer redis;
  HeldPlanner first(/*hold=*/1);
  Servers servers;
  for (int i = 0; i < 3; ++i) {
    servers.push_back(std::make_unique<TestServer>(Sharing(redis), first.function()));
  }
  Workers workers(servers, 1);
  first.WaitUntilHeld();
  // Four of six wait at the other two.
  workers.WaitForAnswers(4);
  first.Release();
  ExpectOnePlan(workers.Answers());
}

}  // namespace
}  // namespace batchplan
