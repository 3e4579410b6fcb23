// Replicas of which one plans for all.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "server/rendezvous/rendezvous.h"
#include "tests/server/rendezvous/expect_refused.h"
#include "tests/server/rendezvous/world.h"

namespace batchplan::testing {
namespace {

uint64_t PlansIn(World& world, size_t replicas) {
  uint64_t plans = 0;
  for (size_t r = 0; r < replicas; ++r) plans += world.rendezvous(r).counts().plans;
  return plans;
}

TEST(SharedPlansTest, OneReplicaPlansForAll) {
  World world({.workers = 6, .replicas = 3, .fitted = true, .shares = true}, nullptr);
  for (uint32_t worker = 0; worker < 6; ++worker) world.Join(worker, worker % 3);
  world.Settle();
  EXPECT_EQ(PlansIn(world, 3), 1);
  for (size_t call = 0; call < 6; ++call) {
    ASSERT_TRUE(world.call(call).answer.ok()) << world.call(call).answer.status();
    EXPECT_EQ((*world.call(call).answer)->whole.SerializeAsString(),
              (*world.call(0).answer)->whole.SerializeAsString());
    EXPECT_EQ((*world.call(call).answer)->Serialized(),
              (*world.call(call).answer)->whole.SerializeAsString());
  }
  // Also for one that comes again.
  world.Join(3, 1);
  world.Settle();
  EXPECT_TRUE(world.call(6).answer.ok());
  EXPECT_EQ(PlansIn(world, 3), 1);
  world.Finish();
}

TEST(SharedPlansTest, WhoeverAsksAgainIsAnsweredFromMemory) {
  World world({.workers = 2, .replicas = 2, .remembers = true, .shares = true}, nullptr);
  world.Join(0, 0);
  world.Join(1, 1);
  world.Settle();
  EXPECT_EQ(PlansIn(world, 2), 1);
  // Neither replica can read the plan any more.
  world.SetMemoryFailsIn("Plan");
  for (size_t replica : {0, 1}) {
    world.Join(static_cast<uint32_t>(replica), replica);
    world.Settle();
    const Rendezvous::Answer& again = world.call(2 + replica).answer;
    ASSERT_TRUE(again.ok()) << again.status();
    EXPECT_EQ(*again, *world.call(replica).answer);
  }
  EXPECT_EQ(PlansIn(world, 2), 1);
  world.Finish();
}

// The others look at the step once a second.
TEST(SharedPlansTest, AReplicaThatDiesPlanningIsReplacedByOneOther) {
  World world({.workers = 3, .replicas = 3, .deaths = 1, .shares = true}, nullptr);
  world.SetPlannersHeld(true);
  for (uint32_t worker = 0; worker < 3; ++worker) world.Join(worker, worker);
  world.Settle();
  ASSERT_EQ(world.plans_with_planners(), 1);
  size_t planner = 0;
  while (world.plans_with_planner(planner) == 0) ++planner;
  world.Die(planner);
  world.Pause(absl::Milliseconds(999));
  world.Settle();
  EXPECT_EQ(world.plans_with_planners(), 0);
  world.Pause(absl::Milliseconds(1));
  world.Settle();
  EXPECT_EQ(world.plans_with_planners(), 1);
  world.SetPlannersHeld(false);
  world.Settle();
  for (size_t call = 0; call < 3; ++call) {
    if (call == planner) continue;
    EXPECT_TRUE(world.call(call).answer.ok()) << world.call(call).answer.status();
  }
  // The worker of the dead replica comes again, to another.
  world.Join(static_cast<uint32_t>(planner), (planner + 1) % 3);
  world.Settle();
  EXPECT_TRUE(world.call(3).answer.ok()) << world.call(3).answer.status();
  world.Finish();
}

// Joins that come and go while the dead planner has its time do not prolong that.
TEST(SharedPlansTest, ADeadPlannerCostsAStepItsTimeOnce) {
  World world({.workers = 1, .replicas = 2, .deaths = 4, .shares = true}, nullptr);
  world.SetPlannersHeld(true);
  world.Join(0, 0);
  world.Settle();
  ASSERT_EQ(world.plans_with_planner(0), 1);
  world.Die(0);
  for (absl::Duration age; age < kWorldPlanning; age += absl::Milliseconds(100)) {
    world.Join(0, 1);
    world.Settle();
    EXPECT_EQ(world.plans_with_planner(1), 0);
    world.Pause(absl::Milliseconds(100));
    world.Cancel(world.call_count() - 1);
    world.Settle();
  }
  world.SetPlannersHeld(false);
  world.Join(0, 1);
  world.Settle();
  EXPECT_TRUE(world.call(world.call_count() - 1).answer.ok());
  world.Finish();
}

TEST(SharedPlansTest, WhoeverHasLittleTimeLeftDoesNotSpendItOnWaiting) {
  World world({.workers = 2, .replicas = 2, .shares = true}, nullptr);
  world.SetPlannersHeld(true);
  world.Join(0, 0, absl::Milliseconds(400));
  world.Join(1, 1, absl::Milliseconds(400));
  world.Settle();
  EXPECT_EQ(world.plans_with_planners(), 1);
  world.Pause(absl::Milliseconds(200));
  world.Settle();
  EXPECT_EQ(world.plans_with_planners(), 2);
  world.SetPlannersHeld(false);
  world.Settle();
  for (size_t call : {0, 1}) EXPECT_TRUE(world.call(call).answer.ok());
  world.Finish();
}

TEST(SharedPlansTest, AWorkerThatWantsTheRequestGetsItWhoeverPlans) {
  World world({.workers = 2, .replicas = 2, .shares = true}, nullptr);
  for (uint32_t worker : {0, 1}) {
    v1::JoinBatchRequest request = world.Request(worker);
    request.set_return_request(true);
    world.Join(std::move(request), worker);
  }
  world.Settle();
  for (size_t call : {0, 1}) {
    ASSERT_TRUE(world.call(call).answer.ok()) << world.call(call).answer.status();
    ASSERT_NE((*world.call(call).answer)->request, nullptr);
    EXPECT_EQ((*world.call(call).answer)->request->manifest().lengths_size(), 1);
  }
  world.Finish();
}

// The one that comes while the plan is read is not answered with it.
TEST(SharedPlansTest, AWorkerThatWantsTheRequestGetsItAlsoIfItComesLate) {
  World world({.workers = 1, .replicas = 2, .shares = true}, nullptr);
  world.Join(0, 0);
  world.Settle();
  for (int steps = 0; steps < 6; ++steps) {
    const size_t before = world.call_count();
    world.Join(0, 1);
    for (int i = 0; i < steps && world.tasks(1) > 0; ++i) world.RunOldestTask(1);
    v1::JoinBatchRequest request = world.Request(0);
    request.set_return_request(true);
    world.Join(std::move(request), 1);
    world.Settle();
    ASSERT_TRUE(world.call(before).answer.ok()) << world.call(before).answer.status();
    ASSERT_TRUE(world.call(before + 1).answer.ok()) << world.call(before + 1).answer.status();
    EXPECT_NE((*world.call(before + 1).answer)->request, nullptr);
  }
  world.Finish();
}

TEST(SharedPlansTest, APlanThatCantBeReadIsMade) {
  World world({.workers = 2, .replicas = 2, .shares = true}, nullptr);
  world.SetMemoryFailsIn("Plan");
  world.Join(0, 0);
  world.Join(1, 1);
  world.Settle();
  for (size_t call : {0, 1}) EXPECT_TRUE(world.call(call).answer.ok());
  EXPECT_EQ(PlansIn(world, 2), 2);
  world.Finish();
}

// A replica where all wait leaves no plan, which nobody would read.
TEST(SharedPlansTest, APlanForNobodyElseIsNotKept) {
  World world({.workers = 2, .replicas = 2, .shares = true}, nullptr);
  world.Join(0, 0);
  world.Join(1, 0);
  world.Settle();
  ASSERT_TRUE(world.call(0).answer.ok());
  const std::string incarnation = (*world.call(0).answer)->incarnation;
  EXPECT_EQ(world.store().Plan(world.key(), incarnation).value(), std::nullopt);
  // Whoever comes again elsewhere has it planned there.
  world.Join(0, 1);
  world.Settle();
  EXPECT_TRUE(world.call(2).answer.ok());
  EXPECT_EQ(PlansIn(world, 2), 2);
  world.Finish();
}

}  // namespace
}  // namespace batchplan::testing
