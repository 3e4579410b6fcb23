// Every order in which the things of a small world can happen, within a budget of failures.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>

#include "tests/server/rendezvous/explorer.h"
#include "tests/server/rendezvous/world.h"
#include "tests/support/generators.h"

namespace batchplan::testing {
namespace {

void RunWorld(const WorldOptions& options, Choices& choices) {
  World world(options, &choices);
  world.Explore();
  if (!::testing::Test::HasFailure()) world.Finish();
  if (::testing::Test::HasFailure()) {
    ADD_FAILURE() << "in the run of the choices " << choices.Describe();
  }
}

// Explores all runs, at least so many: a world that shrinks without notice proves less. Where a
// share of the cases is asked for, the first runs, up to that share of `at_least`.
void ExploreWorld(const WorldOptions& options, uint64_t at_least) {
  const uint64_t share = Cases(at_least);
  const uint64_t limit = share < at_least ? share : UINT64_MAX;
  const uint64_t runs = ExploreAll([&](Choices& choices) { RunWorld(options, choices); },
                                   [] { return ::testing::Test::HasFailure(); }, limit);
  ::testing::Test::RecordProperty("runs", std::to_string(runs));
  EXPECT_GE(runs, std::min(share, at_least));
}

TEST(RendezvousModelTest, WhateverTheOrderAllGetOnePlan) {
  ExploreWorld({.workers = 3}, 50);
  ExploreWorld({.workers = 2, .replicas = 2}, 5000);
}

TEST(RendezvousModelTest, WhateverTheOrderAFitThatMovesSplitsNoStep) {
  ExploreWorld({.workers = 2, .replicas = 2, .fitted = true}, 15'000);
}

TEST(RendezvousModelTest, WhateverTheOrderARefusalReachesAll) {
  ExploreWorld({.workers = 2, .replicas = 2, .invalid = true}, 5000);
}

TEST(RendezvousModelTest, WhateverTheOrderVersionsThatPlanDifferentlySplitNoStep) {
  ExploreWorld({.workers = 2, .replicas = 2, .versions = true}, 5000);
  ExploreWorld({.workers = 1, .replicas = 2, .fitted = true, .versions = true, .retries = 2}, 500);
}

TEST(RendezvousModelTest, WhateverTheOrderAPlanThatIsSharedReachesAll) {
  ExploreWorld({.workers = 2, .replicas = 2, .shares = true}, 500);
  ExploreWorld({.workers = 2, .replicas = 2, .fitted = true, .shares = true}, 500);
  ExploreWorld({.workers = 2, .replicas = 2, .invalid = true, .shares = true}, 500);
  ExploreWorld({.workers = 2, .replicas = 2, .versions = true, .shares = true}, 500);
}

TEST(RendezvousModelTest, WhateverBecomesOfWhoeverPlansForAllTheOthersGetThePlan) {
  ExploreWorld({.workers = 2, .replicas = 2, .deaths = 1, .pauses = 1, .shares = true}, 500);
  ExploreWorld({.workers = 2, .replicas = 2, .cancels = 1, .shares = true}, 500);
  ExploreWorld({.workers = 2, .replicas = 2, .busy_planners = 1, .shares = true}, 500);
  ExploreWorld({.workers = 2, .replicas = 2, .lost_hints = 1, .shares = true}, 500);
  ExploreWorld({.workers = 1, .replicas = 2, .store_failures = 1, .retries = 1, .shares = true},
               100);
  ExploreWorld({.workers = 1, .replicas = 2, .memory_failures = 1, .retries = 1, .shares = true},
               100);
}

TEST(RendezvousModelTest, WhicheverNotificationIsLostAllGetThePlan) {
  ExploreWorld({.workers = 2, .replicas = 2, .lost_hints = 2}, 35'000);
}

TEST(RendezvousModelTest, WhicheverCallOfTheStoreFailsAllAreAnswered) {
  ExploreWorld({.workers = 2, .fitted = true, .store_failures = 2, .pauses = 1}, 6000);
  ExploreWorld({.workers = 2, .store_failures = 1, .retries = 1, .pauses = 1}, 40'000);
  ExploreWorld({.workers = 1, .replicas = 2, .fitted = true, .store_failures = 1, .retries = 1},
               1000);
}

TEST(RendezvousModelTest, WhereverMemoryRunsOutAllAreAnswered) {
  ExploreWorld({.workers = 2, .fitted = true, .memory_failures = 2, .pauses = 1}, 1000);
  ExploreWorld({.workers = 1, .replicas = 2, .fitted = true, .memory_failures = 1, .retries = 1},
               500);
}

TEST(RendezvousModelTest, WheneverTheStoreForgetsAllGetThePlan) {
  ExploreWorld({.workers = 2, .flushes = 1, .pauses = 1}, 10'000);
  ExploreWorld({.workers = 1, .flushes = 2, .pauses = 1}, 100);
}

TEST(RendezvousModelTest, WheneverTheStoreForgetsWhatWasPlannedStays) {
  ExploreWorld({.workers = 1, .replicas = 2, .flushes = 1, .retries = 1, .remembers = true},
               200'000);
}

TEST(RendezvousModelTest, WheneverARunBeginsNobodyGetsAPlanOfAnother) {
  ExploreWorld({.workers = 1, .run_changes = 1}, 30'000);
}

TEST(RendezvousModelTest, WheneverAJobRestartsNobodyGetsAPlanOfOtherParts) {
  ExploreWorld({.workers = 1, .restarts = 1, .deliveries = 1}, 100);
  ExploreWorld({.workers = 1, .cancels = 1, .restarts = 1}, 100);
  ExploreWorld({.workers = 1, .invalid = true, .restarts = 1}, 10'000);
}

// Too many runs to try them all.
TEST(RendezvousModelTest, HoweverOftenAJobRestartsNobodyGetsAPlanOfOtherParts) {
  for (uint64_t seed = 0; seed < Cases(20'000) && !HasFailure(); ++seed) {
    WorldOptions options = {.workers = 2,
                            .replicas = 2,
                            .fitted = seed % 2 == 0,
                            .cancels = 1,
                            .retries = 2,
                            .pauses = 2,
                            .restarts = 2,
                            .deliveries = 3,
                            .remembers = seed % 4 < 2,
                            .shares = seed % 7 < 4};
    if (seed % 3 == 0) std::swap(options.restarts, options.run_changes);
    Choices choices(seed);
    RunWorld(options, choices);
  }
}

TEST(RendezvousModelTest, WhoeverIsCancelledTheOthersGetThePlan) {
  ExploreWorld({.workers = 2, .replicas = 2, .cancels = 1}, 50'000);
  ExploreWorld({.workers = 2, .cancels = 1, .retries = 1}, 1000);
}

TEST(RendezvousModelTest, WheneverAReplicaDiesItsWorkersRetryIntoThePlan) {
  ExploreWorld({.workers = 1, .replicas = 2, .fitted = true, .deaths = 1, .retries = 2}, 1000);
}

TEST(RendezvousModelTest, ARetryOfAnAnsweredCallGetsThePlanAgain) {
  ExploreWorld({.workers = 1, .replicas = 2, .fitted = true, .retries = 2}, 500);
  ExploreWorld({.workers = 2, .fitted = true, .retries = 2}, 5000);
}

TEST(RendezvousModelTest, APlannerThatIsBusySplitsNoStep) {
  ExploreWorld({.workers = 2, .replicas = 2, .fitted = true, .busy_planners = 1}, 35'000);
}

TEST(RendezvousModelTest, APlannerThatHasNoRoomForNowIsAskedAgain) {
  ExploreWorld({.workers = 2, .refusals = 2, .pauses = 1}, 250);
  ExploreWorld({.workers = 1, .cancels = 1, .retries = 1, .refusals = 1, .pauses = 1}, 100);
  ExploreWorld({.workers = 1, .replicas = 2, .fitted = true, .retries = 1, .refusals = 2}, 500);
}

TEST(RendezvousModelTest, HoweverTimePassesAllGetThePlan) {
  ExploreWorld({.workers = 2, .pauses = 4}, 15'000);
}

TEST(RendezvousModelTest, HoweverCallsOfTheStoreOverlapAllGetThePlan) {
  ExploreWorld({.workers = 2, .retries = 1, .overlaps = 3}, 3000);
  ExploreWorld({.workers = 2, .overlaps = 6}, 500);
  ExploreWorld({.workers = 1, .replicas = 2, .fitted = true, .retries = 1, .overlaps = 2}, 500);
}

// Too many runs to try them all.
TEST(RendezvousModelTest, WhateverHappensInALargerWorldThePromisesHold) {
  for (const uint64_t seed : Seeds(20'000)) {
    if (HasFailure()) break;
    WorldOptions options = {.workers = 3,
                            .replicas = 3,
                            .fitted = seed % 2 == 0,
                            .lost_hints = 2,
                            .store_failures = 3,
                            .memory_failures = 2,
                            .cancels = 1,
                            .deaths = 1,
                            .retries = 4,
                            .busy_planners = 1,
                            .refusals = 2,
                            .pauses = 6,
                            .overlaps = 4,
                            .restarts = seed % 3 == 1 ? 2 : 0,
                            .deliveries = 4,
                            .remembers = seed % 5 < 3,
                            .shares = seed % 7 < 4};
    if (seed % 3 == 2) options.run_changes = 2;
    // What is planned anew after a loss may be planned with another fit, and by another version.
    options.flushes = options.fitted ? 0 : 1;
    options.versions = seed % 4 == 0;
    Choices choices(seed);
    RunWorld(options, choices);
  }
}

}  // namespace
}  // namespace batchplan::testing
