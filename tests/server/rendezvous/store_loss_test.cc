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

TEST(StoreLossTest, AJoinThatComesWhileTheStoreIsDownWaitsForIt) {
  World world({.workers = 2}, nullptr);
  world.SetStoreDown(true);
  world.Join(0, 0, absl::Seconds(3));
  world.Join(1, 0, absl::Seconds(10));
  world.Settle();
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(world.call(0).waits());
    world.Pause(absl::Seconds(1));
    world.Settle();
  }
  // Told when its own time is over, and no sooner.
  ExpectRefused(world.call(0), absl::StatusCode::kUnavailable,
                AllOf(HasSubstr("the time was over"), HasSubstr("the store is down")));
  world.SetStoreDown(false);
  world.Join(0, 0);
  for (int i = 0; i < 2; ++i) {
    world.Settle();
    world.Pause(absl::Seconds(1));
  }
  world.Settle();
  EXPECT_TRUE(world.call(1).answer.ok()) << world.call(1).answer.status();
  EXPECT_TRUE(world.call(2).answer.ok()) << world.call(2).answer.status();
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

TEST(StoreLossTest, AfterALossAWorkerThatComesWithAnotherRequestGetsThePlanOfThatOne) {
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
  // What was planned before the loss is nobody's.
  EXPECT_TRUE(world.call(1).answer.ok()) << world.call(1).answer.status();
  ExpectRefused(world.call(0), absl::StatusCode::kAlreadyExists, HasSubstr("use another step"));
  world.Finish();
}

// All of what two replicas and three workers know when the store forgets: worker 0 does not come
// again, since it has its plan.
TEST(StoreLossTest, AWorkerThatLostItsAnswerGetsItThoughTheStoreForgotAndOthersDoNotComeAgain) {
  World world({.workers = 3, .replicas = 2, .fitted = true, .remembers = true}, nullptr);
  for (uint32_t worker : {0, 1, 2}) world.Join(worker, 0);
  world.Settle();
  for (size_t call : {0, 1, 2}) ASSERT_TRUE(world.call(call).answer.ok());
  const std::string fingerprint = (*world.call(0).answer)->plan().fingerprint();
  const auto expect_plan = [&](size_t call) {
    ASSERT_TRUE(world.call(call).answer.ok()) << world.call(call).answer.status();
    EXPECT_EQ((*world.call(call).answer)->plan().fingerprint(), fingerprint);
  };
  world.Flush();
  // At the replica that planned the step: at once.
  world.Join(1, 0);
  world.Settle();
  world.Pause(absl::Milliseconds(50));
  world.Settle();
  expect_plan(3);
  // At the one that knows nothing of it, when it has looked.
  world.Flush();
  world.Join(1, 1);
  world.Join(2, 1);
  world.Settle();
  world.Pause(absl::Seconds(1));
  world.Settle();
  expect_plan(4);
  expect_plan(5);
  // And where all of them come again, they are not planned for anew.
  world.Flush();
  for (uint32_t worker : {0, 1, 2}) world.Join(worker, 0);
  world.Settle();
  world.Pause(absl::Milliseconds(50));
  world.Settle();
  for (size_t call : {6, 7, 8}) expect_plan(call);
  world.Finish();
}

TEST(StoreLossTest, AStepThatWasLostDoesNotComeBackInTheWayOfWhatItsJobJoinsAnew) {
  World world({.workers = 2, .remembers = true}, nullptr);
  for (uint32_t worker : {0, 1}) world.Join(worker, 0);
  world.Settle();
  world.Flush();
  world.Restart();
  for (uint32_t worker : {0, 1}) {
    world.Join(worker, 0);
    world.Settle();
    world.Pause(absl::Seconds(1));
    world.Settle();
  }
  for (size_t call : {2, 3}) EXPECT_TRUE(world.call(call).answer.ok());
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
