// Which calls must go when a FairQueue has no room.

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "server/service/admission/fair_queue.h"
#include "tests/server/service/admission/fair_queue_model.h"
#include "tests/support/generators.h"

namespace batchplan {
namespace {

using testing::RandomStream;
using testing::Seeds;
using Call = FairQueue::Call;

TEST(FairQueueRoomTest, RoomIsMadeByTheRules) {
  uint64_t refused = 0;
  uint64_t made = 0;
  for (const uint64_t seed : Seeds(1500)) {
    SCOPED_TRACE(seed);
    RandomStream random(seed);
    FairQueue queue;
    FairQueueModel model;
    const Instant now = At(absl::Seconds(1));
    const uint64_t calls = random.Between(0, 30);
    for (uint64_t id = 1; id <= calls; ++id) {
      Call call = RandomCall(random, id);
      if (random.Chance(40)) call.owner = "A";
      if (random.Chance(40)) call.job = "a";
      queue.Push(call, now);
      model.Push(call);
    }
    for (uint64_t i = random.Between(0, calls); i > 0; --i) {
      const std::optional<uint64_t> id = model.Pop(kPlenty);
      ASSERT_EQ(queue.Pop(kPlenty), id);
      if (id.has_value() && random.Chance(70)) {
        queue.Done(*id, absl::Milliseconds(1), now);
        model.Done(*id, absl::Milliseconds(1));
      }
    }
    const std::string owner = RandomName(random, 'A', 4);
    const std::string job = RandomName(random, 'a', 5);
    const FairQueueModel::Place place = model.PlaceOf(owner, job);
    const uint64_t cost = RandomCost(random);
    FairQueue::Bounds bounds;
    const bool by_count = random.Chance(50);
    if (by_count) {
      bounds.waiting = random.Between(0, calls + 1);
    } else {
      bounds.cost = random.Between(0, 2 * model.Cost() + 1);
    }
    const auto measure = [by_count](std::pair<size_t, uint64_t> held) {
      return by_count ? held.first : held.second;
    };
    const FairQueue::Room room = queue.MakeRoom(owner, job, cost, bounds);
    if (!room.admitted) {
      EXPECT_TRUE(room.pushed_out.empty());
      ++refused;
      // If one call fewer would do, nobody has a call to spare and more than the new call's owner
      // would have.
      if (by_count && model.waiting().size() == bounds.waiting) {
        for (const Call& call : model.waiting()) {
          const size_t owners = model.Held(call.owner).first;
          const size_t jobs = model.Held(model.PlaceOf(call)).first;
          if (call.owner != owner) {
            EXPECT_TRUE(owners < 2 || owners <= model.Held(owner).first + 1);
          } else {
            EXPECT_TRUE(jobs < 2 || jobs <= model.Held(place).first + 1);
          }
        }
      }
      continue;
    }
    for (const uint64_t id : room.pushed_out) {
      const auto victim = std::find_if(model.waiting().begin(), model.waiting().end(),
                                       [id](const Call& call) { return call.id == id; });
      ASSERT_NE(victim, model.waiting().end()) << "not a waiting call";
      const FairQueueModel::Place loser = model.PlaceOf(*victim);
      EXPECT_NE(loser, place);
      const uint64_t added = by_count ? 1 : cost;
      if (victim->owner != owner) {
        EXPECT_GE(model.Held(victim->owner).first, 2U) << "an owner keeps one call";
        EXPECT_GT(measure(model.Held(victim->owner)), measure(model.Held(owner)) + added);
      } else {
        EXPECT_GE(model.Held(loser).first, 2U) << "a job keeps one call beside its owner's others";
        EXPECT_GT(measure(model.Held(loser)), measure(model.Held(place)) + added);
      }
      // Its newest call goes.
      EXPECT_TRUE(std::none_of(
          model.waiting().begin(), model.waiting().end(),
          [&](const Call& call) { return model.PlaceOf(call) == loser && call.id > id; }));
      EXPECT_TRUE(model.Remove(id));
      EXPECT_TRUE(queue.Remove(id));
      ++made;
    }
    EXPECT_LT(model.waiting().size(), bounds.waiting);
    EXPECT_TRUE(queue.empty() || model.Cost() + cost <= bounds.cost);
    ASSERT_FALSE(HasFailure());
  }
  EXPECT_GT(refused, 100U);
  EXPECT_GT(made, 100U);
}

TEST(FairQueueRoomTest, AQueueFullOfFreshJobsMakesRoomForAKnownOneOfTheSameOwner) {
  FairQueue queue;
  const Instant now = At(absl::Seconds(1));
  const FairQueue::Bounds bounds = {.waiting = 8};
  queue.Push(MakeCall("A", "known", 1), now);
  EXPECT_EQ(queue.Pop(kPlenty), 1U);
  queue.Done(1, absl::Milliseconds(1), now);
  for (uint64_t id = 2; id <= 9; ++id) queue.Push(MakeCall("A", std::to_string(id), id), now);
  EXPECT_FALSE(queue.MakeRoom("A", "fresh", 100, bounds).admitted);
  EXPECT_EQ(queue.MakeRoom("A", "known", 100, bounds).pushed_out, std::vector<uint64_t>{9});
  EXPECT_EQ(queue.MakeRoom("B", "fresh", 100, bounds).pushed_out, std::vector<uint64_t>{9});
}

TEST(FairQueueRoomTest, WhatWasPushedOutDoesNotPushOutInItsTurn) {
  FairQueue queue;
  const Instant now = At(absl::Seconds(1));
  const FairQueue::Bounds bounds = {.waiting = 8};
  for (uint64_t id = 1; id <= 8; ++id) queue.Push(MakeCall("A", "a", id), now);
  uint64_t last = 8;
  // B's calls are admitted until A and B hold equally many; from then on both are refused.
  for (int i = 0; i < 20; ++i) {
    for (const std::string owner : {"B", "A"}) {
      const FairQueue::Room room = queue.MakeRoom(owner, "a", 100, bounds);
      EXPECT_EQ(room.admitted, owner == "B" && i < 4) << owner << i;
      if (!room.admitted) continue;
      for (const uint64_t id : room.pushed_out) queue.Remove(id);
      queue.Push(MakeCall(owner, "a", ++last), now);
    }
  }
  EXPECT_EQ(queue.waiting(), 8U);
}

TEST(FairQueueRoomTest, ACallLargerThanTheBoundIsLetInAlone) {
  FairQueue queue;
  const Instant now = At(absl::Seconds(1));
  const FairQueue::Bounds bounds = {.waiting = 8, .cost = 1000};
  EXPECT_TRUE(queue.MakeRoom("A", "a", 5000, bounds).admitted);
  queue.Push(MakeCall("A", "a", 1, 5000), now);
  EXPECT_FALSE(queue.MakeRoom("B", "b", 1, bounds).admitted) << "an owner keeps its only call";
  queue.Pop(kPlenty);
  EXPECT_FALSE(queue.MakeRoom("B", "b", 1, bounds).admitted);
  queue.Done(1, absl::Milliseconds(1), now);
  EXPECT_TRUE(queue.MakeRoom("B", "b", 5000, bounds).admitted);
}

}  // namespace
}  // namespace batchplan
