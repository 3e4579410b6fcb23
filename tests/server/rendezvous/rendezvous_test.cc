#include "server/rendezvous/rendezvous.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "server/rendezvous/outcome.h"
#include "tests/server/rendezvous/expect_refused.h"
#include "tests/server/rendezvous/world.h"

namespace batchplan::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(RendezvousTest, TheLastPartBringsAllTheSamePlan) {
  World world({.workers = 3, .replicas = 2}, nullptr);
  world.Join(2, 0);
  world.Join(0, 1);
  world.Settle();
  EXPECT_TRUE(world.call(0).waits());
  EXPECT_EQ(world.rendezvous(0).counts().waiting, 1);
  EXPECT_EQ(world.rendezvous(0).counts().steps, 1);
  world.Join(1, 1);
  world.Settle();
  for (size_t call : {0, 1, 2}) {
    ASSERT_TRUE(world.call(call).answer.ok()) << world.call(call).answer.status();
    // The parts in the order of the workers: none, one, two.
    EXPECT_EQ((*world.call(call).answer)->plan().fingerprint(), "v::10,20,21:0");
    EXPECT_THAT((*world.call(call).answer)->whole.worker_offsets(),
                ::testing::ElementsAre(0, 0, 1, 3));
  }
  world.Finish();
}

TEST(RendezvousTest, AReplicaFetchesAndPlansOnceForAllWhoWaitThere) {
  constexpr uint32_t kWorkers = 64;
  World world({.workers = kWorkers}, nullptr);
  for (uint32_t worker = 0; worker < kWorkers; ++worker) world.Join(worker, 0);
  world.Settle();
  EXPECT_EQ(world.rendezvous(0).counts().plans, 1);
  // A part for each, at most two looks, one fetch and one outcome.
  EXPECT_LE(world.store_calls(), static_cast<int>(kWorkers) + 4);
  EXPECT_EQ((*world.call(0).answer).get(), (*world.call(63).answer).get());
  world.Finish();
}

TEST(RendezvousTest, ARetryWithinRetentionGetsTheSamePlanFromAnyReplica) {
  World world({.workers = 2, .replicas = 2, .fitted = true}, nullptr);
  world.Join(0, 0);
  world.Join(1, 0);
  world.Settle();
  ASSERT_TRUE(world.call(0).answer.ok());
  world.Join(0, 1);
  world.Settle();
  // The world sees to it that it is the same, though the fitted coefficients have moved.
  EXPECT_TRUE(world.call(2).answer.ok());
  EXPECT_EQ(world.rendezvous(1).counts().plans, 1);
  world.Finish();
}

TEST(RendezvousTest, ReplicasThatPlanTheSameWithOtherCoefficientsNameTheRecordedOnes) {
  World world({.workers = 1, .replicas = 2, .fitted = true}, nullptr);
  world.SetCostsChangeNothing(true);
  world.SetPlannersHeld(true);
  world.Join(0, 0);
  world.Join(0, 1);
  world.Settle();
  ASSERT_EQ(world.plans_with_planners(), 2);
  world.SetPlannersHeld(false);
  world.Settle();
  ASSERT_TRUE(world.call(0).answer.ok());
  ASSERT_TRUE(world.call(1).answer.ok());
  EXPECT_EQ((*world.call(0).answer)->plan().cost_model_used().per_token(),
            (*world.call(1).answer)->plan().cost_model_used().per_token());
  world.Finish();
}

TEST(RendezvousTest, TimeIsOverForTheMissingByName) {
  World world({.workers = 4}, nullptr);
  world.Join(1, 0, absl::Seconds(5));
  world.Join(3, 0, absl::Seconds(8));
  world.Settle();
  for (int i = 0; i < 50; ++i) {
    world.Pause(absl::Milliseconds(100));
    world.Settle();
  }
  ExpectRefused(world.call(0), absl::StatusCode::kDeadlineExceeded,
                AllOf(HasSubstr("step 7 of job \"job\""),
                      HasSubstr("2 of 4 workers did not join in time: 0, 2")));
  EXPECT_TRUE(world.call(1).waits());
  // It has come before, and need not come again for the others.
  world.Join(0, 0);
  world.Join(2, 0);
  world.Settle();
  EXPECT_TRUE(world.call(1).answer.ok());
  world.Finish();
}

TEST(RendezvousTest, WhereTheLastOneCameAsTimeWasOverNobodyIsCalledMissing) {
  World world({.workers = 2}, nullptr);
  world.Join(0, 0, absl::Seconds(5));
  world.Settle();
  world.Pause(absl::Milliseconds(4900));
  world.Settle();
  world.Join(1, 0, absl::Seconds(5));
  // Its part is stored, and nobody has looked at the step since.
  world.RunOldestTask(0);
  world.Pause(absl::Milliseconds(100));
  ExpectRefused(world.call(0), absl::StatusCode::kDeadlineExceeded,
                AllOf(HasSubstr("all 2 workers joined"), HasSubstr("a retry continues the step"),
                      Not(HasSubstr("did not join"))));
  world.Settle();
  EXPECT_TRUE(world.call(1).answer.ok());
  world.Finish();
}

TEST(RendezvousTest, WhoCameThroughAnotherReplicaIsNotMissingAndManyAreAbbreviated) {
  World world({.workers = 100, .replicas = 2}, nullptr);
  world.SetLoseHints(true);
  world.Join(0, 0, absl::Seconds(3));
  world.Settle();
  // Just before the last look.
  world.Pause(absl::Milliseconds(2800));
  world.Settle();
  world.Join(5, 1);
  world.Settle();
  world.Pause(absl::Milliseconds(100));
  world.Settle();
  world.Pause(absl::Milliseconds(100));
  ExpectRefused(world.call(0), absl::StatusCode::kDeadlineExceeded,
                AllOf(HasSubstr("98 of 100 workers did not join in time: 1, 2, 3, 4, 6, "),
                      HasSubstr("32, 33 ... and 66 more"), Not(HasSubstr("34"))));
  world.Finish();
}

TEST(RendezvousTest, OtherContentOfAWorkerIsRefused) {
  World world({.workers = 2}, nullptr);
  world.Join(1, 0);
  world.Settle();
  v1::JoinBatchRequest other = world.Request(1);
  other.mutable_request()->mutable_manifest()->add_lengths(5);
  world.Join(other, 0);
  world.Settle();
  ExpectRefused(world.call(1), absl::StatusCode::kAlreadyExists,
                AllOf(HasSubstr("step 7 of job \"job\""), HasSubstr("worker 1")));
  EXPECT_TRUE(world.call(0).waits());
  world.Finish();
}

TEST(RendezvousTest, OtherTermsAreRefusedByFieldValuesAndWorkers) {
  World world({.workers = 3}, nullptr);
  world.Join(1, 0);
  world.Settle();
  v1::JoinBatchRequest other = world.Request(2);
  other.mutable_request()->set_preset("verl");
  world.Join(other, 0);
  world.Settle();
  ExpectRefused(world.call(1), absl::StatusCode::kInvalidArgument,
                AllOf(HasSubstr("request.preset is \"verl\" at worker 2 but \"\" at worker 1")));
  other.set_worker(1);
  world.Join(other, 0);
  world.Settle();
  ExpectRefused(world.call(2), absl::StatusCode::kAlreadyExists,
                AllOf(HasSubstr("worker 1 joined it before with request.preset")));
  world.Finish();
}

TEST(RendezvousTest, AnInvalidPartIsRefusedAtOnceAndLeavesNothing) {
  World world({.workers = 2}, nullptr);
  v1::JoinBatchRequest invalid = world.Request(0);
  invalid.set_worker(2);
  world.Join(invalid, 0);
  ExpectRefused(world.call(0), absl::StatusCode::kInvalidArgument, HasSubstr("worker is 2"));
  EXPECT_EQ(world.store_calls(), 0);
  world.Finish();
}

TEST(RendezvousTest, ARequestThatCannotBePlannedIsTheOutcomeForAll) {
  World world({.workers = 2, .replicas = 2, .invalid = true}, nullptr);
  world.Join(0, 0);
  world.Join(1, 1);
  world.Settle();
  const uint64_t plans = world.rendezvous(1).counts().plans;
  world.Join(0, 1);
  world.Settle();
  for (size_t call : {0, 1, 2}) {
    ExpectRefused(world.call(call), absl::StatusCode::kInvalidArgument, HasSubstr("no such plan"));
  }
  EXPECT_EQ(world.rendezvous(1).counts().plans, plans) << "the outcome is known to the retry";
  world.Finish();
}

TEST(RendezvousTest, WhoeverAsksAgainIsNotPlannedForAgain) {
  World world({.workers = 1, .fitted = true, .remembers = true}, nullptr);
  world.Join(0, 0);
  world.Settle();
  world.Join(0, 0);
  v1::JoinBatchRequest request = world.Request(0);
  request.set_return_request(true);
  world.Join(std::move(request), 0);
  world.Settle();
  for (size_t call : {1, 2}) {
    ASSERT_TRUE(world.call(call).answer.ok()) << world.call(call).answer.status();
    EXPECT_EQ((*world.call(call).answer)->plan().fingerprint(),
              (*world.call(0).answer)->plan().fingerprint());
    EXPECT_NE((*world.call(call).answer)->request, nullptr);
  }
  EXPECT_EQ(world.rendezvous(0).counts().plans, 1);
  world.Finish();
}

TEST(RendezvousTest, PartsThatDoNotGoTogetherAreTheOutcomeForAll) {
  World world({.workers = 3, .replicas = 2}, nullptr);
  v1::JoinBatchRequest grouped = world.Request(1);
  grouped.mutable_request()->mutable_manifest()->add_group_ids(1);
  world.Join(0, 0);
  world.Join(grouped, 0);
  world.Join(2, 1);
  world.Settle();
  for (size_t call : {0, 1, 2}) {
    ExpectRefused(world.call(call), absl::StatusCode::kInvalidArgument,
                  HasSubstr("worker 1's part and none in worker 2's"));
  }
  EXPECT_EQ(world.rendezvous(0).counts().plans, 0);
  world.Finish();
}

TEST(RendezvousTest, OtherErrorsOfThePlannerAreTheCallsOwnAndARetryMayDoBetter) {
  World world({.workers = 1}, nullptr);
  world.SetPlanAnswer(absl::ResourceExhaustedError("the planning queue is full"));
  world.Join(0, 0);
  world.Settle();
  ExpectRefused(world.call(0), absl::StatusCode::kResourceExhausted, HasSubstr("queue is full"));
  world.SetPlanAnswer(absl::OkStatus());
  world.Join(0, 0);
  world.Settle();
  EXPECT_TRUE(world.call(1).answer.ok());
  world.Finish();
}

TEST(RendezvousTest, APlannerWithoutRoomIsAskedAgainAndOnlyWhoseTimeIsOverAreTold) {
  World world({.workers = 2}, nullptr);
  world.SetPlanAnswer(NoRoomForNow());
  world.Join(0, 0, absl::Seconds(1));
  world.Join(1, 0, absl::Seconds(10));
  world.Settle();
  const int store_calls = world.store_calls();
  for (int i = 0; i < 9; ++i) {
    EXPECT_TRUE(world.call(0).waits());
    world.Pause(absl::Milliseconds(100));
    world.Settle();
  }
  EXPECT_EQ(world.rendezvous(0).counts().plans, 10);
  world.Pause(absl::Milliseconds(100));
  ExpectRefused(world.call(0), absl::StatusCode::kResourceExhausted, HasSubstr("no room for now"));
  EXPECT_TRUE(world.call(1).waits());
  // The request was there all the time.
  EXPECT_EQ(world.store_calls(), store_calls);
  world.SetPlanAnswer(absl::OkStatus());
  world.Settle();
  EXPECT_TRUE(world.call(1).answer.ok()) << world.call(1).answer.status();
  world.Finish();
}

TEST(RendezvousTest, APlannerWithoutRoomIsNotAskedAgainForNobody) {
  World world({.workers = 1}, nullptr);
  world.SetPlanAnswer(NoRoomForNow());
  world.Join(0, 0);
  world.Settle();
  world.Cancel(0);
  EXPECT_EQ(world.rendezvous(0).counts().steps, 0);
  world.SetPlanAnswer(absl::OkStatus());
  world.Pause(absl::Milliseconds(100));
  world.Settle();
  EXPECT_EQ(world.rendezvous(0).counts().plans, 1);
  world.Join(0, 0);
  world.Settle();
  EXPECT_TRUE(world.call(1).answer.ok());
  world.Finish();
}

TEST(RendezvousTest, AReplicaOfAnotherVersionGivesOutNoOtherPlan) {
  World world({.workers = 1, .replicas = 2, .versions = true}, nullptr);
  world.Join(0, 0);
  world.Settle();
  EXPECT_TRUE(world.call(0).answer.ok());
  world.Join(0, 1);
  world.Settle();
  ExpectRefused(world.call(1), absl::StatusCode::kUnavailable,
                AllOf(HasSubstr("planner version v0"), HasSubstr("version v1 of this replica")));
  world.Finish();
}

TEST(RendezvousTest, AnOutcomeOfALaterFormIsLeftToNewerReplicas) {
  World world({.workers = 1}, nullptr);
  world.SetPlannersHeld(true);
  world.Join(0, 0);
  world.Settle();
  const std::string incarnation = world.store().Progress(world.key(), "")->incarnation;
  ASSERT_TRUE(world.store().PutOutcome(world.key(), incarnation, {.bytes = "\xff\xff"}).ok());
  world.SetPlannersHeld(false);
  world.Settle();
  ExpectRefused(world.call(0), absl::StatusCode::kUnavailable, HasSubstr("a newer replica"));
  world.Join(0, 0);
  world.Settle();
  ExpectRefused(world.call(1), absl::StatusCode::kUnavailable, HasSubstr("a newer replica"));
  world.Finish();
}

TEST(RendezvousTest, ACancelledJoinLeavesItsPartAndTheOthersGoOn) {
  World world({.workers = 2}, nullptr);
  world.Join(0, 0);
  // Also before the part is stored.
  world.Cancel(0);
  ExpectRefused(world.call(0), absl::StatusCode::kCancelled, HasSubstr("worker 0's part stays"));
  world.Settle();
  EXPECT_EQ(world.rendezvous(0).counts().steps, 0);
  world.Join(1, 0);
  world.Settle();
  EXPECT_TRUE(world.call(1).answer.ok());
  world.Cancel(1);
  world.Finish();
}

TEST(RendezvousTest, WhenNobodyWaitsThePlannerIsStoppedAndALaterJoinIsPlannedAnew) {
  World world({.workers = 2}, nullptr);
  world.SetPlannersHeld(true);
  world.Join(0, 0);
  world.Join(1, 0);
  world.Settle();
  ASSERT_EQ(world.plans_with_planners(), 1);
  world.Cancel(0);
  EXPECT_FALSE(world.stop_requested(0)) << "one still waits";
  world.Cancel(1);
  EXPECT_TRUE(world.stop_requested(0));
  // While the planner has not noticed yet.
  world.Join(0, 0);
  world.Settle();
  world.SetPlannersHeld(false);
  world.Settle();
  world.Pause(absl::Milliseconds(50));
  world.Settle();
  EXPECT_TRUE(world.call(2).answer.ok()) << world.call(2).answer.status();
  world.Finish();
}

TEST(RendezvousTest, ShutdownSendsAllToAnotherReplicaWhichContinues) {
  World world({.workers = 2, .replicas = 2}, nullptr);
  world.Join(0, 0);
  world.Settle();
  world.rendezvous(0).Shutdown();
  const std::string message =
      "the server is shutting down; retry, another replica continues the step";
  ExpectRefused(world.call(0), absl::StatusCode::kUnavailable, message);
  world.Join(0, 0);
  ExpectRefused(world.call(1), absl::StatusCode::kUnavailable, message);
  world.Join(1, 1);
  world.Join(0, 1);
  world.Settle();
  EXPECT_TRUE(world.call(2).answer.ok());
  EXPECT_TRUE(world.call(3).answer.ok());
  world.Finish();
}

TEST(RendezvousTest, MoreJoinsThanMayWaitAreRefusedByTheNameOfTheFlag) {
  World world({.workers = 9, .max_waiting = 3}, nullptr);
  for (uint32_t worker = 0; worker < 4; ++worker) world.Join(worker, 0);
  ExpectRefused(world.call(3), absl::StatusCode::kResourceExhausted,
                HasSubstr("--max_waiting_joins=3"));
  EXPECT_EQ(world.rendezvous(0).counts().refused, 1);
  world.Cancel(0);
  world.Join(3, 0);
  EXPECT_TRUE(world.call(4).waits());
  world.Finish();
}

TEST(RendezvousTest, ALaterRunSupersedesAnEarlierOneAlsoItsWaitingJoins) {
  World world({.workers = 2, .replicas = 2}, nullptr);
  world.Restart("run 1");
  world.Join(0, 0);
  world.Settle();
  world.Restart("run 2");
  world.Join(0, 1);
  world.Settle();
  EXPECT_TRUE(world.call(0).waits());
  world.Pause(absl::Seconds(1));
  world.Settle();
  const auto superseded = AllOf(HasSubstr("step 7 of job \"job\", run \"run 1\""),
                                HasSubstr("run \"run 2\" of the job came later"));
  ExpectRefused(world.call(0), absl::StatusCode::kFailedPrecondition, superseded);
  v1::JoinBatchRequest late = world.Request(1);
  late.set_run_id("run 1");
  world.Join(late, 1);
  world.Settle();
  ExpectRefused(world.call(2), absl::StatusCode::kFailedPrecondition, superseded);
  EXPECT_TRUE(world.call(1).waits()) << "that was no part of its run";
  world.Join(1, 0);
  world.Settle();
  EXPECT_TRUE(world.call(1).answer.ok());
  EXPECT_TRUE(world.call(3).answer.ok());
  world.Finish();
}

TEST(RendezvousTest, AStepThatAllItsWorkersHadGivesWayToARestartsParts) {
  World world({.workers = 2, .replicas = 2}, nullptr);
  for (uint32_t worker : {0, 1}) world.Join(worker, worker);
  world.Settle();
  world.Deliver(0);
  world.Pause(absl::Milliseconds(50));
  world.Settle();
  world.Restart();
  world.Join(0, 0);
  world.Settle();
  ExpectRefused(world.call(2), absl::StatusCode::kAlreadyExists, HasSubstr("step 7"));
  world.Deliver(1);
  // Without a Tick: whoever offers a part tells of whom it served.
  world.Join(0, 1);
  world.Settle();
  world.Join(1, 0);
  world.Settle();
  EXPECT_TRUE(world.call(3).answer.ok()) << world.call(3).answer.status();
  EXPECT_TRUE(world.call(4).answer.ok()) << world.call(4).answer.status();
  world.Finish();
}

TEST(RendezvousTest, AnIncompleteStepGivesWayOnceNobodyWaitsForIt) {
  World world({.workers = 2}, nullptr);
  v1::JoinBatchRequest stray = world.Request(0);
  stray.set_world_size(5);
  world.Join(stray, 0);
  world.Settle();
  world.Join(1, 0);
  world.Settle();
  ExpectRefused(world.call(1), absl::StatusCode::kInvalidArgument, HasSubstr("world_size"));
  world.Cancel(0);
  world.Settle();
  world.Join(1, 0);
  world.Join(0, 0);
  world.Settle();
  EXPECT_TRUE(world.call(2).answer.ok()) << world.call(2).answer.status();
  EXPECT_TRUE(world.call(3).answer.ok()) << world.call(3).answer.status();
  world.Finish();
}

TEST(RendezvousTest, ARefusedStepGivesWayToAMendedRequest) {
  World world({.workers = 2, .replicas = 2}, nullptr);
  world.SetPlanAnswer(absl::InvalidArgumentError("the budget is too small"));
  for (uint32_t worker : {0, 1}) world.Join(worker, worker);
  world.Settle();
  for (size_t call : {0, 1}) {
    ExpectRefused(world.call(call), absl::StatusCode::kInvalidArgument, HasSubstr("too small"));
  }
  world.SetPlanAnswer(absl::OkStatus());
  world.Restart();
  for (uint32_t worker : {0, 1}) world.Join(worker, worker);
  world.Settle();
  for (size_t call : {2, 3}) EXPECT_TRUE(world.call(call).answer.ok());
  world.Finish();
}

TEST(RendezvousTest, WhatAReplicaDoesNotKnowIsNotTheStepsOutcome) {
  World world({.workers = 2, .replicas = 2}, nullptr);
  world.SetPlanAnswer(absl::UnimplementedError("preset is \"newer\""));
  for (uint32_t worker : {0, 1}) world.Join(worker, 0);
  world.Settle();
  for (size_t call : {0, 1}) {
    ExpectRefused(world.call(call), absl::StatusCode::kUnimplemented, HasSubstr("newer"));
  }
  world.SetPlanAnswer(absl::OkStatus());
  world.Join(0, 1);
  world.Settle();
  EXPECT_TRUE(world.call(2).answer.ok()) << "its part and the other's are still there";
  world.Finish();
}

TEST(RendezvousTest, TwoCallsOfOneWorkerAreBothAnswered) {
  World world({.workers = 2}, nullptr);
  world.Join(0, 0);
  world.Join(0, 0);
  world.Join(1, 0);
  world.Settle();
  for (size_t call : {0, 1, 2}) EXPECT_TRUE(world.call(call).answer.ok());
  world.Finish();
}

}  // namespace
}  // namespace batchplan::testing
