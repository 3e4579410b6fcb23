// Every order in which the things of a small world can happen, within a budget of failures.

#include <gtest/gtest.h>

#include <cstdint>

#include "tests/server/rendezvous/explorer.h"
#include "tests/server/rendezvous/world.h"

namespace batchplan::testing {
namespace {

// Explores all runs, at least so many: a world that shrinks without notice proves less.
void ExploreWorld(const WorldOptions& options, uint64_t at_least) {
  uint64_t plans = 0;
  const uint64_t runs = ExploreAll(
      [&](Choices& choices) {
        World world(options, &choices);
        world.Explore();
        if (!::testing::Test::HasFailure()) world.Finish();
        if (::testing::Test::HasFailure()) {
          ADD_FAILURE() << "in the run of the choices " << choices.Describe();
        }
        plans += 1;
      },
      [] { return ::testing::Test::HasFailure(); });
  std::printf("%lu runs\n", runs);
  EXPECT_GE(runs, at_least);
}

TEST(RendezvousModelTest, OneReplica) { ExploreWorld({.workers = 2}, 1); }
TEST(RendezvousModelTest, OneReplicaThree) { ExploreWorld({.workers = 3}, 1); }
TEST(RendezvousModelTest, TwoReplicas) { ExploreWorld({.workers = 2, .replicas = 2}, 1); }
TEST(RendezvousModelTest, TwoReplicasFitted) {
  ExploreWorld({.workers = 2, .replicas = 2, .fitted = true}, 1);
}

}  // namespace
}  // namespace batchplan::testing
