// JoinBatch over gRPC: what workers of a step see of each other.

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tests/server/service/held_planner.h"
#include "tests/server/service/requests.h"
#include "tests/support/test_server.h"

namespace batchplan {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr uint32_t kWorkers = 4;

// Worker w has w + 10 of the 46 sequences of a step.
v1::JoinBatchRequest PartOf(uint32_t worker, uint64_t step = 1) {
  v1::JoinBatchRequest part;
  part.set_worker(worker);
  part.set_world_size(kWorkers);
  part.mutable_request()->set_job_id("join");
  part.mutable_request()->set_step(step);
  part.mutable_request()->mutable_topology()->set_data_parallel(2);
  part.mutable_request()->add_passes()->set_max_tokens_per_microbatch(1000);
  for (uint32_t i = 0; i < worker + 10; ++i) {
    part.mutable_request()->mutable_manifest()->add_lengths(1 + (worker * 131 + i * 37) % 900);
  }
  return part;
}

// A call that holds the one thread that the job may have of two.
v1::PlanBatchRequest OfTheStepsJob() {
  v1::PlanBatchRequest request = ValidRequest();
  request.set_job_id("join");
  return request;
}

struct Answer {
  grpc::Status status;
  v1::JoinBatchResponse response;
};

Answer Join(const TestServer& server, const v1::JoinBatchRequest& part,
            std::chrono::system_clock::time_point deadline = GenerousDeadline()) {
  Answer answer;
  grpc::ClientContext context;
  context.set_deadline(deadline);
  answer.status = server.NewStub()->JoinBatch(&context, part, &answer.response);
  return answer;
}

// What all the workers are told, each joining by its own thread.
std::vector<Answer> JoinAll(const TestServer& server,
                            const std::function<void(v1::JoinBatchRequest&)>& change = {}) {
  std::vector<Answer> answers(kWorkers);
  std::vector<std::jthread> workers;
  workers.reserve(kWorkers);
  for (uint32_t worker = 0; worker < kWorkers; ++worker) {
    workers.emplace_back([&, worker] {
      v1::JoinBatchRequest part = PartOf(worker);
      if (change) change(part);
      answers[worker] = Join(server, part);
    });
  }
  workers.clear();
  return answers;
}

// Returns once the metric is `value`; ctest ends a test that waits for ever.
void WaitForMetric(TestServer& server, const std::string& name, double value) {
  while (server.Metric(name) != value) std::this_thread::yield();
}

// The same for one that rises, perhaps past it.
void WaitForAtLeast(TestServer& server, const std::string& name, double value) {
  while (server.Metric(name) < value) std::this_thread::yield();
}

// The same as after a restart of the job, whose workers may come before the server knows that the
// last answers were sent: they come again for a while.
std::vector<Answer> JoinAllAnew(const TestServer& server,
                                const std::function<void(v1::JoinBatchRequest&)>& change,
                                uint32_t workers = kWorkers) {
  std::vector<Answer> answers(workers);
  std::vector<std::jthread> threads;
  threads.reserve(workers);
  const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  for (uint32_t worker = 0; worker < workers; ++worker) {
    threads.emplace_back([&, worker] {
      v1::JoinBatchRequest part = PartOf(worker);
      change(part);
      do {
        answers[worker] = Join(server, part);
      } while (!answers[worker].status.ok() && std::chrono::steady_clock::now() < give_up);
    });
  }
  threads.clear();
  return answers;
}

void ExpectOnePlan(const std::vector<Answer>& answers) {
  for (const Answer& answer : answers) {
    ASSERT_TRUE(answer.status.ok()) << answer.status.error_message();
    EXPECT_EQ(answer.response.plan().fingerprint(), answers[0].response.plan().fingerprint());
  }
}

TEST(JoinBatch, ARestartReplaysAStepThatAllItsWorkersHadWithOtherRollouts) {
  const TestServer server;
  const std::vector<Answer> before = JoinAll(server);
  ExpectOnePlan(before);
  const std::vector<Answer> after = JoinAllAnew(server, [](v1::JoinBatchRequest& part) {
    part.mutable_request()->mutable_manifest()->set_lengths(0, 17);
  });
  ExpectOnePlan(after);
  EXPECT_NE(after[0].response.plan().fingerprint(), before[0].response.plan().fingerprint());
}

TEST(JoinBatch, ARestartReplaysAStepThatAllItsWorkersHadWithAnotherWorldSize) {
  const TestServer server;
  ExpectOnePlan(JoinAll(server));
  ExpectOnePlan(JoinAllAnew(
      server, [](v1::JoinBatchRequest& part) { part.set_world_size(2); }, /*workers=*/2));
}

TEST(JoinBatch, AMendedBudgetReplacesABatchThatCouldNotBePlanned) {
  const TestServer server;
  for (const Answer& answer : JoinAll(server, [](v1::JoinBatchRequest& part) {
         part.mutable_request()->mutable_passes(0)->set_max_tokens_per_microbatch(100);
       })) {
    EXPECT_EQ(answer.status.error_code(), grpc::INVALID_ARGUMENT);
  }
  // At once: what was refused is in nobody's way.
  ExpectOnePlan(JoinAll(server));
}

TEST(JoinBatch, AStrayCallThatIsOverIsInNobodysWay) {
  TestServer server;
  v1::JoinBatchRequest stray = PartOf(0);
  stray.set_world_size(5);
  stray.mutable_timeout()->set_nanos(100'000'000);
  EXPECT_EQ(Join(server, stray).status.error_code(), grpc::DEADLINE_EXCEEDED);
  WaitForMetric(server, "batchplan_store_seconds_count{operation=\"leave\"}", 1);
  ExpectOnePlan(JoinAll(server));
}

TEST(JoinBatch, ALaterRunSupersedesAnEarlierOneWhichIsToldSo) {
  TestServer server;
  const auto in_run = [](const char* run) {
    return [run](v1::JoinBatchRequest& part) { part.set_run_id(run); };
  };
  ExpectOnePlan(JoinAll(server, in_run("first")));
  Answer waiting;
  std::jthread old([&] {
    v1::JoinBatchRequest part = PartOf(0, /*step=*/2);
    part.set_run_id("first");
    waiting = Join(server, part);
  });
  WaitForMetric(server, "batchplan_joins_waiting", 1);
  WaitForMetric(server, "batchplan_rendezvous_memory_steps", 2);
  // The same step with other lengths, and no part of it meets the old ones.
  ExpectOnePlan(JoinAll(server, [](v1::JoinBatchRequest& part) {
    part.set_run_id("second");
    part.mutable_request()->mutable_manifest()->set_lengths(0, 17);
  }));
  old.join();
  v1::JoinBatchRequest late = PartOf(1);
  late.set_run_id("first");
  for (const grpc::Status& status : {waiting.status, Join(server, late).status}) {
    EXPECT_EQ(status.error_code(), grpc::FAILED_PRECONDITION);
    EXPECT_THAT(status.error_message(),
                AllOf(HasSubstr("run \"first\""), HasSubstr("run \"second\"")));
  }
  late.set_run_id(std::string(129, 'r'));
  EXPECT_THAT(Join(server, late).status.error_message(),
              AllOf(HasSubstr("run_id has 129 bytes"), HasSubstr("128")));
}

TEST(JoinBatch, StepsThatNobodyWaitsForMakeRoomForAnotherJobs) {
  ServerOptions options = TestServer::Options();
  options.rendezvous_memory_bytes = 1 << 20;
  const TestServer server(options);
  v1::JoinBatchRequest flood = PartOf(0);
  flood.mutable_request()->set_job_id("flooder");
  flood.mutable_timeout()->set_nanos(50'000'000);
  for (uint32_t i = 0; i < 40'000; ++i) {
    flood.mutable_request()->mutable_manifest()->add_lengths(900);
  }
  for (uint64_t step = 0; step < 20; ++step) {
    flood.mutable_request()->set_step(step);
    EXPECT_EQ(Join(server, flood).status.error_code(), grpc::DEADLINE_EXCEEDED) << step;
  }
  ExpectOnePlan(JoinAll(server));
}

TEST(JoinBatch, AStepIsCountedOnceAndItsPartsEach) {
  TestServer server;
  const std::vector<Answer> answers = JoinAll(server);
  for (const Answer& answer : answers) ASSERT_TRUE(answer.status.ok());
  const v1::PassPlan& pass = answers.front().response.plan().passes(0);
  for (const auto& [name, value] : std::vector<std::pair<std::string, double>>{
           {"batchplan_joins_total{outcome=\"joined\"}", kWorkers},
           {"batchplan_join_seconds_count", kWorkers},
           {"batchplan_requests_total{code=\"OK\",method=\"JoinBatch\"}", kWorkers},
           {"batchplan_store_seconds_count{operation=\"put_part\"}", kWorkers},
           {"batchplan_store_seconds_count{operation=\"put_outcome\"}", 1},
           {"batchplan_store_seconds_count{operation=\"parts\"}", 1},
           {"batchplan_sequences_per_plan_count", 1},
           {"batchplan_sequences_per_plan_sum", pass.sequence_lengths_size()},
           {"batchplan_true_tokens_total", static_cast<double>(pass.metrics().true_tokens())},
           {"batchplan_step_time_over_bound_sum",
            pass.metrics().predicted_step_time() / pass.metrics().lower_bound_step_time()}}) {
    EXPECT_NEAR(server.Metric(name), value, 1e-5 * value) << name;
  }
  // Also where its first worker comes again.
  ASSERT_TRUE(Join(server, PartOf(0)).status.ok());
  EXPECT_EQ(server.Metric("batchplan_joins_total{outcome=\"joined\"}"), kWorkers + 1);
  EXPECT_EQ(server.Metric("batchplan_sequences_per_plan_count"), 1);
}

TEST(JoinBatch, WorkersGetThePlanOfThePartsInTheirOrder) {
  const TestServer server;
  v1::PlanBatchRequest whole = PartOf(0).request();
  for (uint32_t worker = 1; worker < kWorkers; ++worker) {
    whole.mutable_manifest()->mutable_lengths()->MergeFrom(
        PartOf(worker).request().manifest().lengths());
  }
  grpc::ClientContext context;
  v1::PlanBatchResponse alone;
  ASSERT_TRUE(server.NewStub()->PlanBatch(&context, whole, &alone).ok());
  for (const Answer& answer : JoinAll(server)) {
    ASSERT_TRUE(answer.status.ok()) << answer.status.error_message();
    EXPECT_EQ(answer.response.plan().fingerprint(), alone.fingerprint());
    EXPECT_EQ(answer.response.plan().passes(0).SerializeAsString(),
              alone.passes(0).SerializeAsString());
    EXPECT_THAT(answer.response.worker_offsets(), ElementsAre(0, 10, 21, 33, 46));
  }
}

// The first worker's sequences are older than the others'.
TEST(JoinBatch, EveryWorkerIsToldWhatOfAllPartsWaits) {
  const TestServer server;
  const std::vector<Answer> answers = JoinAll(server, [](v1::JoinBatchRequest& part) {
    v1::Manifest& manifest = *part.mutable_request()->mutable_manifest();
    for (int i = 0; i < manifest.lengths_size(); ++i) manifest.add_ages(part.worker() == 0 ? 3 : 1);
    part.mutable_request()->mutable_selection()->set_sequences(30);
    part.mutable_request()->mutable_selection()->set_max_age(2);
    part.set_own_slice_only(part.worker() < 2);
    part.set_data_parallel_rank(part.worker() % 2);
  });
  for (const Answer& answer : answers) {
    ASSERT_TRUE(answer.status.ok()) << answer.status.error_message();
    const v1::PlanBatchResponse& plan = answer.response.plan();
    EXPECT_THAT(plan.deferred(), ElementsAre(40, 41, 42, 43, 44, 45));
    EXPECT_EQ(plan.excluded_size(), 10);
    EXPECT_EQ(plan.excluded(9).reason(), v1::EXCLUSION_REASON_EXPIRED);
    EXPECT_EQ(plan.fingerprint(), answers[3].response.plan().fingerprint());
  }
}

TEST(JoinBatch, WorkersMayBringTheCostsToPlanWith) {
  const TestServer server;
  const std::vector<Answer> answers = JoinAll(server, [](v1::JoinBatchRequest& part) {
    v1::CostModel& costs = *part.mutable_request()->mutable_cost_model();
    costs.set_per_token(0.5);
    costs.set_per_token_squared(0.001);
    costs.set_per_microbatch(6);
    costs.set_per_sequence(0.25);
    costs.add_exchange()->set_per_token(0.02);
    costs.set_exchange_overlaps(true);
  });
  ExpectOnePlan(answers);
  for (const Answer& answer : answers) {
    const v1::CostModel& used = answer.response.plan().cost_model_used();
    EXPECT_EQ(used.per_token(), 0.5);
    EXPECT_EQ(used.per_token_squared(), 0.001);
    EXPECT_EQ(used.per_microbatch(), 6);
    EXPECT_EQ(used.per_sequence(), 0.25);
    ASSERT_EQ(used.exchange_size(), 1);
    EXPECT_EQ(used.exchange(0).per_token(), 0.02);
    EXPECT_TRUE(used.exchange_overlaps());
  }
}

TEST(JoinBatch, TheLimitOnMessagesIsOnWhatIsSent) {
  ServerOptions options = TestServer::Options();
  options.max_message_bytes = 4096;
  const TestServer server(options);
  const std::vector<Answer> answers = JoinAll(server, [](v1::JoinBatchRequest& part) {
    part.mutable_request()->mutable_topology()->set_data_parallel(kWorkers);
    for (int i = 0; i < 300; ++i) part.mutable_request()->mutable_manifest()->add_lengths(i + 1);
    part.set_own_slice_only(part.worker() > 0);
    part.set_data_parallel_rank(part.worker());
  });
  for (uint32_t worker = 1; worker < kWorkers; ++worker) {
    EXPECT_TRUE(answers[worker].status.ok()) << answers[worker].status.error_message();
  }
  EXPECT_EQ(answers[0].status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_THAT(answers[0].status.error_message(),
              AllOf(HasSubstr("the plan takes "), HasSubstr("max_message_bytes=4096")));
}

TEST(JoinBatch, WhatIsNotKnownIsRefusedBeforeItIsStored) {
  const TestServer server;
  v1::JoinBatchRequest part = PartOf(0);
  v1::PlanBatchRequest* request = part.mutable_request();
  request->GetReflection()->MutableUnknownFields(request)->AddVarint(99, 1);
  const Answer answer = Join(server, part);
  EXPECT_EQ(answer.status.error_code(), grpc::StatusCode::UNIMPLEMENTED);
  EXPECT_EQ(answer.status.error_message(),
            "field 99 of batchplan.v1.PlanBatchRequest is not known to this version");
  EXPECT_LE(server.Metric("batchplan_store_seconds_count{operation=\"put_part\"}"), 0);
}

TEST(JoinBatch, SlicesOfAllRanksAreThePlan) {
  const TestServer server;
  std::multiset<uint32_t> sequences;
  const std::vector<Answer> answers = JoinAll(server, [](v1::JoinBatchRequest& part) {
    part.set_own_slice_only(part.worker() < 2);
    part.set_data_parallel_rank(part.worker() % 2);
  });
  for (const Answer& answer : answers) ASSERT_TRUE(answer.status.ok());
  for (uint32_t rank = 0; rank < 2; ++rank) {
    const v1::PassPlan& slice = answers[rank].response.plan().passes(0);
    sequences.insert(slice.sequence_index().begin(), slice.sequence_index().end());
    EXPECT_EQ(static_cast<uint32_t>(slice.row_widths_size()), slice.microbatches_per_rank(0));
    EXPECT_EQ(slice.microbatch_offsets(0), 0U);
    EXPECT_EQ(answers[rank].response.plan().fingerprint(),
              answers[3].response.plan().fingerprint());
    EXPECT_EQ(answers[rank].response.worker_offsets_size(), 5);
  }
  const auto& all = answers[3].response.plan().passes(0).sequence_index();
  EXPECT_EQ(sequences, std::multiset<uint32_t>(all.begin(), all.end()));
}

// Whoever does not ask for it, as clients that don't know it, gets all.
TEST(JoinBatch, WhoeverAsksForItsOwnPartIsNotToldOfOthers) {
  const TestServer server;
  const std::vector<Answer> answers = JoinAll(server, [](v1::JoinBatchRequest& part) {
    v1::Manifest& manifest = *part.mutable_request()->mutable_manifest();
    for (int i = 0; i < manifest.lengths_size(); ++i) manifest.add_ages(part.worker() == 0 ? 3 : 1);
    part.mutable_request()->mutable_selection()->set_sequences(30);
    part.mutable_request()->mutable_selection()->set_max_age(2);
    part.set_own_slice_only(true);
    part.set_own_part_only(part.worker() != 2);
    part.set_data_parallel_rank(part.worker() % 2);
  });
  for (const Answer& answer : answers) {
    ASSERT_TRUE(answer.status.ok()) << answer.status.error_message();
  }
  EXPECT_THAT(answers[0].response.worker_offsets(), ElementsAre(0, 10));
  EXPECT_EQ(answers[0].response.plan().excluded_size(), 10);
  EXPECT_EQ(answers[0].response.plan().deferred_size(), 0);
  EXPECT_THAT(answers[1].response.worker_offsets(), ElementsAre(10, 21));
  EXPECT_EQ(answers[1].response.plan().excluded_size(), 0);
  EXPECT_THAT(answers[2].response.worker_offsets(), ElementsAre(0, 10, 21, 33, 46));
  EXPECT_EQ(answers[2].response.plan().excluded_size(), 10);
  EXPECT_THAT(answers[3].response.worker_offsets(), ElementsAre(33, 46));
  EXPECT_THAT(answers[3].response.plan().deferred(), ElementsAre(40, 41, 42, 43, 44, 45));
  // Ranks 0 and 1 are two workers' each.
  for (uint32_t worker = 0; worker < 2; ++worker) {
    EXPECT_EQ(answers[worker].response.plan().passes(0).SerializeAsString(),
              answers[worker + 2].response.plan().passes(0).SerializeAsString());
  }
}

TEST(JoinBatch, WhoeverAsksIsToldWhatWasPlanned) {
  const TestServer server;
  const std::vector<Answer> answers = JoinAll(server, [](v1::JoinBatchRequest& part) {
    v1::Manifest& manifest = *part.mutable_request()->mutable_manifest();
    for (int i = 0; i < manifest.lengths_size(); ++i) manifest.add_group_ids(part.worker());
    part.mutable_request()->set_request_id("mine");
    part.set_return_request(part.worker() > 1);
    part.set_own_slice_only(part.worker() > 2);
  });
  ExpectOnePlan({answers[0], answers[1], answers[2]});
  for (uint32_t worker = 0; worker < kWorkers; ++worker) {
    ASSERT_EQ(answers[worker].response.has_request(), worker > 1);
  }
  const v1::PlanBatchRequest& planned = answers[2].response.request();
  EXPECT_EQ(planned.manifest().lengths_size(), 46);
  EXPECT_EQ(planned.manifest().group_ids(45), 3);
  EXPECT_EQ(planned.step(), PartOf(0).request().step());
  EXPECT_THAT(planned.request_id(), ::testing::IsEmpty());
  EXPECT_EQ(planned.SerializeAsString(), answers[3].response.request().SerializeAsString());

  // It is the request that makes this plan.
  grpc::ClientContext context;
  v1::PlanBatchResponse alone;
  ASSERT_TRUE(server.NewStub()->PlanBatch(&context, planned, &alone).ok());
  EXPECT_EQ(alone.fingerprint(), answers[2].response.plan().fingerprint());
}

// Of four ranks that groups of several sizes divide, each worker is one.
TEST(JoinBatch, SlicesOfAPoolHaveEachSequenceOnEveryRankOfItsGroup) {
  const TestServer server;
  const std::vector<Answer> answers = JoinAll(server, [](v1::JoinBatchRequest& part) {
    v1::PlanBatchRequest& request = *part.mutable_request();
    request.mutable_topology()->set_data_parallel(2);
    request.mutable_topology()->set_context_parallel(2);
    request.mutable_topology()->mutable_dynamic_context();
    request.set_allow_empty_microbatches(true);
    part.set_own_slice_only(true);
    part.set_data_parallel_rank(part.worker());
  });
  std::map<uint32_t, uint32_t> ranks_of;
  std::map<uint32_t, uint32_t> size_of;
  for (const Answer& answer : answers) {
    ASSERT_TRUE(answer.status.ok()) << answer.status.error_message();
    const v1::PassPlan& slice = answer.response.plan().passes(0);
    ASSERT_EQ(static_cast<uint32_t>(slice.context_sizes_size()), slice.microbatches_per_rank(0));
    for (int m = 0; m < slice.context_sizes_size(); ++m) {
      for (uint32_t i = slice.microbatch_offsets(m); i < slice.microbatch_offsets(m + 1); ++i) {
        const uint32_t sequence = slice.sequence_index(static_cast<int>(i));
        ++ranks_of[sequence];
        size_of[sequence] = slice.context_sizes(m);
      }
    }
  }
  EXPECT_EQ(ranks_of.size(), answers[0].response.worker_offsets(4));
  EXPECT_EQ(ranks_of, size_of);
}

TEST(JoinBatch, TheSamePartMayBeSentAgainBeforeAndAfterThePlan) {
  TestServer server;
  std::jthread early([&] {
    const auto soon = std::chrono::system_clock::now() + std::chrono::milliseconds(100);
    EXPECT_EQ(Join(server, PartOf(0), soon).status.error_code(), grpc::DEADLINE_EXCEEDED);
  });
  early.join();
  const std::vector<Answer> answers = JoinAll(server);
  ASSERT_TRUE(answers[0].status.ok());
  const Answer late = Join(server, PartOf(2));
  ASSERT_TRUE(late.status.ok()) << late.status.error_message();
  EXPECT_EQ(late.response.plan().fingerprint(), answers[0].response.plan().fingerprint());
}

TEST(JoinBatch, OtherContentForTheSamePlaceIsRefusedWhileTheFirstWaits) {
  TestServer server;
  std::jthread first([&] { Join(server, PartOf(2)); });
  WaitForMetric(server, "batchplan_rendezvous_memory_steps", 1);
  v1::JoinBatchRequest other = PartOf(2);
  other.mutable_request()->mutable_manifest()->set_lengths(0, 17);
  const grpc::Status status = Join(server, other).status;
  EXPECT_EQ(status.error_code(), grpc::ALREADY_EXISTS);
  EXPECT_THAT(status.error_message(),
              AllOf(HasSubstr("join"), HasSubstr("step 1"), HasSubstr("worker 2")));
  server.server().Shutdown();
}

TEST(JoinBatch, DisagreementNamesTheFieldAndBothWorkers) {
  TestServer server;
  std::jthread first([&] { Join(server, PartOf(0)); });
  WaitForMetric(server, "batchplan_rendezvous_memory_steps", 1);
  v1::JoinBatchRequest other = PartOf(3);
  other.mutable_request()->mutable_passes(0)->set_max_tokens_per_microbatch(2000);
  const grpc::Status status = Join(server, other).status;
  EXPECT_EQ(status.error_code(), grpc::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(),
              AllOf(HasSubstr("request.passes[0].max_tokens_per_microbatch"), HasSubstr("1000"),
                    HasSubstr("2000"), HasSubstr("worker 3")));
  server.server().Shutdown();
}

TEST(JoinBatch, TheMissingAreNamedBeforeTheCallsOwnDeadline) {
  const TestServer server;
  const auto deadline = std::chrono::system_clock::now() + std::chrono::seconds(2);
  const grpc::Status by_call = Join(server, PartOf(1), deadline).status;
  EXPECT_EQ(by_call.error_code(), grpc::DEADLINE_EXCEEDED);
  EXPECT_THAT(by_call.error_message(), AllOf(HasSubstr("3 of 4"), HasSubstr("0, 2, 3")));

  v1::JoinBatchRequest hasty = PartOf(1);
  hasty.mutable_timeout()->set_nanos(400'000'000);
  const grpc::Status by_request = Join(server, hasty).status;
  EXPECT_EQ(by_request.error_code(), grpc::DEADLINE_EXCEEDED);
  EXPECT_THAT(by_request.error_message(), HasSubstr("0, 2, 3"));
}

TEST(JoinBatch, CancelledWorkerDoesNotHoldUpTheOthers) {
  TestServer server;
  grpc::ClientContext context;
  v1::JoinBatchResponse response;
  std::jthread cancelled(
      [&] { server.NewStub()->JoinBatch(&context, PartOf(0), &response).IgnoreError(); });
  WaitForMetric(server, "batchplan_joins_waiting", 1);
  context.TryCancel();
  cancelled.join();
  WaitForMetric(server, "batchplan_joins_waiting", 0);
  for (uint32_t worker = 1; worker < kWorkers - 1; ++worker) {
    v1::JoinBatchRequest part = PartOf(worker);
    part.mutable_timeout()->set_nanos(1'000'000);
    EXPECT_EQ(Join(server, part).status.error_code(), grpc::DEADLINE_EXCEEDED);
  }
  EXPECT_TRUE(Join(server, PartOf(kWorkers - 1)).status.ok());
}

TEST(JoinBatch, BatchThatCantBePlannedIsToldToAll) {
  const TestServer server;
  const std::vector<Answer> answers = JoinAll(server, [](v1::JoinBatchRequest& part) {
    if (part.worker() == 2) part.mutable_request()->mutable_manifest()->set_lengths(4, 5000);
  });
  for (const Answer& answer : answers) {
    EXPECT_EQ(answer.status.error_code(), grpc::INVALID_ARGUMENT);
    EXPECT_THAT(answer.status.error_message(), HasSubstr("manifest.lengths[25] is 5000"));
  }
}

TEST(JoinBatch, ShutdownSendsWaitingWorkersElsewhere) {
  TestServer server;
  Answer answer;
  std::jthread waiting([&] { answer = Join(server, PartOf(0)); });
  WaitForMetric(server, "batchplan_joins_waiting", 1);
  server.server().Shutdown();
  waiting.join();
  EXPECT_EQ(answer.status.error_code(), grpc::UNAVAILABLE);
  EXPECT_THAT(answer.status.error_message(), HasSubstr("retry"));
}

TEST(JoinBatch, PlanBatchIsServedWhileWorkersWait) {
  ServerOptions options = TestServer::Options();
  options.planning_threads = 1;
  TestServer server(options);
  std::vector<std::jthread> workers;
  for (uint64_t step = 0; step < 100; ++step) {
    workers.emplace_back([&, step] { Join(server, PartOf(0, step)); });
  }
  WaitForMetric(server, "batchplan_joins_waiting", 100);
  grpc::ClientContext context;
  v1::PlanBatchResponse response;
  EXPECT_TRUE(server.NewStub()->PlanBatch(&context, ValidRequest(), &response).ok());
  server.server().Shutdown();
}

TEST(JoinBatch, TooManyWaitingWorkersAreRefused) {
  ServerOptions options = TestServer::Options();
  options.max_waiting_joins = 1;
  TestServer server(options);
  std::jthread waiting([&] { Join(server, PartOf(0)); });
  WaitForMetric(server, "batchplan_joins_waiting", 1);
  const grpc::Status status = Join(server, PartOf(1)).status;
  EXPECT_EQ(status.error_code(), grpc::RESOURCE_EXHAUSTED);
  EXPECT_THAT(status.error_message(), HasSubstr("max_waiting_joins"));
  server.server().Shutdown();
}

TEST(JoinBatch, AFullPlanningQueueDelaysAStepAndRefusesNobody) {
  HeldPlanner planner(/*hold=*/1);
  ServerOptions options = TestServer::Options();
  options.planning_threads = 1;
  options.max_queued_plans = 0;
  TestServer server(options, planner.function());
  std::jthread busy([&] { EXPECT_TRUE(PlanBatch(*server.NewStub(), OfTheStepsJob()).ok()); });
  planner.WaitUntilHeld();
  std::vector<Answer> answers;
  std::jthread workers([&] { answers = JoinAll(server); });
  // Offered again.
  WaitForAtLeast(server, "batchplan_refusals_total{reason=\"queue_full\"}", 2);
  v1::JoinBatchRequest hasty = PartOf(0);
  hasty.mutable_timeout()->set_nanos(200'000'000);
  const grpc::Status refused = Join(server, hasty).status;
  EXPECT_EQ(refused.error_code(), grpc::RESOURCE_EXHAUSTED);
  EXPECT_THAT(refused.error_message(), HasSubstr("max_queued_plans=0"));
  planner.Release();
  workers.join();
  for (const Answer& answer : answers) {
    EXPECT_TRUE(answer.status.ok()) << answer.status.error_message();
  }
}

TEST(JoinBatch, AStepThatNobodyWaitsForLeavesThePlanningQueue) {
  HeldPlanner planner(/*hold=*/1);
  ServerOptions options = TestServer::Options();
  options.planning_threads = 1;
  options.max_queued_plans = 1;
  TestServer server(options, planner.function());
  std::jthread busy([&] { EXPECT_TRUE(PlanBatch(*server.NewStub(), OfTheStepsJob()).ok()); });
  planner.WaitUntilHeld();
  v1::JoinBatchRequest part = PartOf(0);
  part.set_world_size(1);
  {
    grpc::ClientContext context;
    std::jthread worker([&] {
      v1::JoinBatchResponse response;
      server.NewStub()->JoinBatch(&context, part, &response).IgnoreError();
    });
    WaitForMetric(server, "batchplan_queue_depth", 1);
    context.TryCancel();
  }
  // While the only thread is still held.
  WaitForMetric(server, "batchplan_queue_depth", 0);
  planner.Release();
  EXPECT_TRUE(Join(server, part).status.ok());
  EXPECT_EQ(planner.calls(), 2);
}

TEST(JoinBatch, NothingIsLeftOfAThousandSteps) {
  ServerOptions options = TestServer::Options();
  // A worker may be that late with its part of a step that the others end.
  options.step_retention = absl::Seconds(3);
  TestServer server(options);
  std::vector<std::jthread> workers;
  for (uint32_t worker = 0; worker < kWorkers; ++worker) {
    workers.emplace_back([&, worker] {
      const auto stub = server.NewStub();
      for (uint64_t step = 0; step < 1000; ++step) {
        grpc::ClientContext context;
        context.set_deadline(GenerousDeadline());
        v1::JoinBatchResponse response;
        const grpc::Status status = stub->JoinBatch(&context, PartOf(worker, step), &response);
        EXPECT_TRUE(status.ok()) << status.error_message();
      }
    });
  }
  workers.clear();
  WaitForMetric(server, "batchplan_joins_waiting", 0);
  WaitForMetric(server, "batchplan_joined_steps", 0);
  WaitForMetric(server, "batchplan_rendezvous_memory_steps", 0);
  EXPECT_EQ(server.Metric("batchplan_rendezvous_memory_parts"), 0);
  EXPECT_EQ(server.Metric("batchplan_rendezvous_memory_bytes"), 0);
}

}  // namespace
}  // namespace batchplan
