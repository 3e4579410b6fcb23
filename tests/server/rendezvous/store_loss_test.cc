// Joins while the store is away, forgets, runs out of memory, or is not heard.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "server/rendezvous/rendezvous.h"
#include "tests/server/rendezvous/expect_refused.h"
#include "tests/server/rendezvous/world.h"
#include "tests/support/scarce_memory.h"

namespace batchplan::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(StoreLossTest, AStoreThatIsDownRefusesNewJoinsAtOnce) {
  World world({.workers = 2}, nullptr);
  world.SetStoreDown(true);
  world.Join(0, 0);
  world.Settle();
  ExpectRefused(world.call(0), absl::StatusCode::kUnavailable, HasSubstr("the store is down"));
  world.SetStoreDown(false);
  world.Finish();
}

TEST(StoreLossTest, AStoreThatComesBackInTimeIsNotNoticed) {
  World world({.workers = 2}, nullptr);
  world.Join(0, 0);
  world.Settle();
  world.SetStoreDown(true);
  for (int i = 0; i < 5; ++i) {
    world.Pause(absl::Seconds(1));
    world.Settle();
  }
  EXPECT_TRUE(world.call(0).waits());
  world.SetStoreDown(false);
  world.Join(1, 0);
  world.Settle();
  EXPECT_TRUE(world.call(0).answer.ok());
  world.Finish();
}

TEST(StoreLossTest, AStoreThatDoesNotComeBackIsNamedAtTheDeadline) {
  World world({.workers = 2}, nullptr);
  world.Join(0, 0);
  world.Settle();
  world.SetStoreDown(true);
  for (int i = 0; i < 11; ++i) {
    world.Pause(absl::Seconds(1));
    world.Settle();
  }
  ExpectRefused(world.call(0), absl::StatusCode::kUnavailable,
                AllOf(HasSubstr("step 7 of job \"job\""), HasSubstr("the store is down")));
  world.SetStoreDown(false);
  world.Finish();
}

TEST(StoreLossTest, MemoryThatRunsOutInTheStoreIsToldAtOnceAndARetryGoesOn) {
  for (const char* call : {"PutPart", "Progress", "Parts", "PutOutcome"}) {
    World world({.workers = 1, .fitted = true}, nullptr);
    world.SetMemoryFailsIn(call);
    world.Join(0, 0);
    world.Settle();
    ExpectRefused(world.call(0), absl::StatusCode::kResourceExhausted,
                  AllOf(HasSubstr("step 7 of job \"job\""), HasSubstr("out of memory")));
    world.SetMemoryFailsIn("");
    world.Join(0, 0);
    world.Settle();
    EXPECT_TRUE(world.call(1).answer.ok()) << call << ": " << world.call(1).answer.status();
    world.Finish();
  }
}

TEST(StoreLossTest, MemoryThatRunsOutForTheWholeRequestIsToldAtOnceAndARetryGoesOn) {
  constexpr uint32_t kWorkers = 60;
  World world({.workers = kWorkers}, nullptr);
  for (uint32_t worker = 0; worker < kWorkers; ++worker) world.Join(worker, 0);
  {
    // Less than the 1770 lengths take, and more than anything else.
    const ScarceMemory scarce({.largest = 5000});
    world.Settle();
  }
  EXPECT_EQ(world.rendezvous(0).counts().plans, 0);
  for (uint32_t worker = 0; worker < kWorkers; ++worker) {
    ExpectRefused(world.call(worker), absl::StatusCode::kResourceExhausted,
                  HasSubstr("out of memory"));
  }
  world.Join(0, 0);
  world.Settle();
  EXPECT_TRUE(world.call(kWorkers).answer.ok()) << world.call(kWorkers).answer.status();
  world.Finish();
}

TEST(StoreLossTest, PartsThatTheStoreLostAreOfferedAgain) {
  World world({.workers = 3, .replicas = 2}, nullptr);
  world.Join(0, 0);
  world.Join(1, 1);
  world.Settle();
  world.Flush();
  world.Join(2, 0);
  world.Settle();
  EXPECT_TRUE(world.call(0).waits());
  for (int i = 0; i < 20; ++i) {
    world.Pause(absl::Milliseconds(100));
    world.Settle();
  }
  for (size_t call : {0, 1, 2}) EXPECT_TRUE(world.call(call).answer.ok());
  world.Finish();
}

TEST(StoreLossTest, AStepThatIsLostWhileItIsPlannedIsGatheredAnew) {
  World world({.workers = 2}, nullptr);
  world.SetPlannersHeld(true);
  world.Join(0, 0);
  world.Join(1, 0);
  world.Settle();
  ASSERT_EQ(world.plans_with_planners(), 1);
  world.Flush();
  world.SetPlannersHeld(false);
  world.Settle();
  world.Pause(absl::Milliseconds(50));
  world.Settle();
  EXPECT_TRUE(world.call(0).answer.ok());
  EXPECT_EQ(world.rendezvous(0).counts().plans, 2);
  world.Finish();
}

TEST(StoreLossTest, AfterALossAWorkerThatComesWithAnotherRequestGetsNoPlanOfTheOldOne) {
  World world({.workers = 1}, nullptr);
  world.SetPlannersHeld(true);
  world.Join(0, 0);
  world.Settle();
  ASSERT_EQ(world.plans_with_planners(), 1);
  world.Flush();
  v1::JoinBatchRequest other = world.Request(0);
  other.mutable_request()->set_preset("verl");
  world.Join(other, 0);
  world.Settle();
  world.SetPlannersHeld(false);
  for (int i = 0; i < 3; ++i) {
    world.Settle();
    world.Pause(absl::Milliseconds(50));
  }
  EXPECT_TRUE(world.call(0).answer.ok());
  ExpectRefused(world.call(1), absl::StatusCode::kAlreadyExists, HasSubstr("use another step"));
  world.Finish();
}

TEST(StoreLossTest, LostNotificationsAreMadeUpForByLooking) {
  World world({.workers = 2, .replicas = 2}, nullptr);
  world.SetLoseHints(true);
  world.Join(0, 0);
  world.Settle();
  world.Join(1, 1);
  world.Settle();
  EXPECT_TRUE(world.call(0).waits());
  EXPECT_TRUE(world.call(1).answer.ok());
  world.Pause(absl::Seconds(1));
  world.Settle();
  EXPECT_TRUE(world.call(0).answer.ok());
  world.Finish();
}

}  // namespace
}  // namespace batchplan::testing
