#include "server/service/fair_queue.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "tests/support/generators.h"

namespace batchplan {
namespace {

using testing::RandomStream;
using testing::Seeds;

struct ModelCall {
  std::string job;
  uint64_t id = 0;
  uint64_t cost = 0;
};

// Deficit round robin as the paper has it, visit by visit, in vectors.
class Model {
 public:
  void Push(const std::string& job, uint64_t id, uint64_t cost) {
    if (std::none_of(turns_.begin(), turns_.end(), [&](const Turn& t) { return t.job == job; })) {
      turns_.push_back({.job = job});
    }
    waiting_.push_back({.job = job, .id = id, .cost = cost});
  }

  std::optional<uint64_t> Pop() {
    while (!turns_.empty()) {
      Turn& turn = turns_.front();
      if (!turn.granted) turn.deficit += FairQueue::kQuantum;
      turn.granted = true;
      const ModelCall head = *Oldest(turn.job);
      if (head.cost <= turn.deficit) {
        turn.deficit -= head.cost;
        Remove(head.id);
        taken_.push_back(head);
        return head.id;
      }
      turn.granted = false;
      std::rotate(turns_.begin(), turns_.begin() + 1, turns_.end());
    }
    return std::nullopt;
  }

  bool Remove(uint64_t id) {
    const auto found = std::find_if(waiting_.begin(), waiting_.end(),
                                    [id](const ModelCall& call) { return call.id == id; });
    if (found == waiting_.end()) return false;
    const std::string job = found->job;
    waiting_.erase(found);
    if (Oldest(job) == waiting_.end()) {
      std::erase_if(turns_, [&](const Turn& turn) { return turn.job == job; });
    }
    return true;
  }

  void Done(uint64_t id) {
    std::erase_if(taken_, [id](const ModelCall& call) { return call.id == id; });
  }

  const std::vector<ModelCall>& waiting() const { return waiting_; }
  const std::vector<ModelCall>& taken() const { return taken_; }

  uint64_t Cost() const {
    uint64_t cost = 0;
    for (const auto* calls : {&waiting_, &taken_}) {
      for (const ModelCall& call : *calls) cost += call.cost;
    }
    return cost;
  }

  // Calls and cost of `job`, waiting or taken.
  std::pair<size_t, uint64_t> Held(const std::string& job) const {
    std::pair<size_t, uint64_t> held;
    for (const auto* calls : {&waiting_, &taken_}) {
      for (const ModelCall& call : *calls) {
        if (call.job != job) continue;
        ++held.first;
        held.second += call.cost;
      }
    }
    return held;
  }

 private:
  struct Turn {
    std::string job;
    uint64_t deficit = 0;
    bool granted = false;
  };

  std::vector<ModelCall>::iterator Oldest(const std::string& job) {
    return std::find_if(waiting_.begin(), waiting_.end(),
                        [&](const ModelCall& call) { return call.job == job; });
  }

  std::vector<Turn> turns_;
  std::vector<ModelCall> waiting_;
  std::vector<ModelCall> taken_;
};

uint64_t RandomCost(RandomStream& random) {
  return random.Between(1, random.Chance(10) ? 200'000 : random.Chance(50) ? 3000 : 300);
}

std::string RandomJob(RandomStream& random) {
  return std::string(1, static_cast<char>('a' + random.Between(0, 4)));
}

TEST(FairQueueTest, DoesWhatTheModelDoes) {
  for (const uint64_t seed : Seeds(50)) {
    SCOPED_TRACE(seed);
    RandomStream random(seed);
    FairQueue queue;
    Model model;
    uint64_t last = 0;
    for (int i = 0; i < 300; ++i) {
      const uint64_t choice = random.Between(0, 9);
      if (choice < 4) {
        const std::string job = RandomJob(random);
        const uint64_t cost = RandomCost(random);
        queue.Push(job, ++last, cost);
        model.Push(job, last, cost);
      } else if (choice < 7) {
        ASSERT_EQ(queue.Pop(), model.Pop());
      } else if (choice < 8) {
        const uint64_t id = random.Between(0, last);
        ASSERT_EQ(queue.Remove(id), model.Remove(id));
      } else if (!model.taken().empty()) {
        const uint64_t id = random.OneOf(model.taken()).id;
        queue.Done(id);
        model.Done(id);
      }
      ASSERT_EQ(queue.waiting(), model.waiting().size());
      ASSERT_EQ(queue.cost(), model.Cost());
      ASSERT_EQ(queue.empty(), model.waiting().empty() && model.taken().empty());
    }
    while (const std::optional<uint64_t> id = queue.Pop()) {
      ASSERT_EQ(id, model.Pop());
      queue.Done(*id);
    }
    for (const ModelCall& call : model.taken()) queue.Done(call.id);
    EXPECT_TRUE(queue.empty());
    EXPECT_EQ(queue.waiting_cost(), 0U);
    EXPECT_EQ(queue.cost(), 0U);
  }
}

TEST(FairQueueTest, JobsThatAlwaysWaitGetTheSameWhateverTheySend) {
  for (const uint64_t seed : Seeds(10)) {
    SCOPED_TRACE(seed);
    RandomStream random(seed);
    FairQueue queue;
    std::map<uint64_t, ModelCall> calls;
    uint64_t last = 0;
    // Job a sends a few large calls, the others many small ones, and job e a hundred times as many.
    const auto push = [&](const std::string& job) {
      const uint64_t cost = job == "a" ? random.Between(20'000, 50'000) : random.Between(1, 2000);
      calls[++last] = {.job = job, .id = last, .cost = cost};
      queue.Push(job, last, cost);
    };
    const std::vector<std::string> jobs = {"a", "b", "c", "d", "e"};
    // Two each, so that every job has a call waiting at any time.
    for (int i = 0; i < 2; ++i) {
      for (const std::string& job : jobs) push(job);
    }
    for (int i = 0; i < 200; ++i) push("e");
    std::map<std::string, uint64_t> served;
    for (int i = 0; i < 1000; ++i) {
      const std::optional<uint64_t> id = queue.Pop();
      ASSERT_TRUE(id.has_value());
      const ModelCall call = calls[*id];
      served[call.job] += call.cost;
      queue.Done(*id);
      push(call.job);
      for (const std::string& one : jobs) {
        for (const std::string& other : jobs) {
          const uint64_t largest = (one == "a" ? 50'000 : 2000) + (other == "a" ? 50'000 : 2000);
          ASSERT_LE(served[one], served[other] + FairQueue::kQuantum + largest);
        }
      }
    }
    EXPECT_GT(served["a"], 0U);
  }
}

TEST(FairQueueTest, AJobsOwnCallsKeepTheirOrder) {
  FairQueue queue;
  for (uint64_t id = 1; id <= 50; ++id) queue.Push(id % 2 == 0 ? "a" : "b", id, id * 100);
  uint64_t last[2] = {0, 0};
  while (const std::optional<uint64_t> id = queue.Pop()) {
    EXPECT_GT(*id, last[*id % 2]);
    last[*id % 2] = *id;
  }
  EXPECT_EQ(last[0], 50U);
  EXPECT_EQ(last[1], 49U);
}

TEST(FairQueueTest, ASmallCallPassesAGreedyJobsQueue) {
  FairQueue queue;
  for (uint64_t id = 1; id <= 100; ++id) queue.Push("greedy", id, 10'000);
  EXPECT_EQ(queue.Pop(), 1U);
  queue.Push("small", 1000, 300);
  // At the latest after the one call that the greedy job has its turn for.
  const std::vector<std::optional<uint64_t>> next = {queue.Pop(), queue.Pop()};
  EXPECT_TRUE(std::find(next.begin(), next.end(), 1000U) != next.end());
}

TEST(FairQueueTest, RoomIsMadeByTheRules) {
  uint64_t refused = 0;
  uint64_t made = 0;
  for (const uint64_t seed : Seeds(800)) {
    SCOPED_TRACE(seed);
    RandomStream random(seed);
    FairQueue queue;
    Model model;
    const uint64_t calls = random.Between(0, 30);
    for (uint64_t id = 1; id <= calls; ++id) {
      const std::string job = random.Chance(50) ? "a" : RandomJob(random);
      const uint64_t cost = RandomCost(random);
      queue.Push(job, id, cost);
      model.Push(job, id, cost);
    }
    for (uint64_t i = random.Between(0, calls); i > 0; --i) {
      ASSERT_EQ(queue.Pop(), model.Pop());
    }
    const std::string job = RandomJob(random);
    const uint64_t cost = RandomCost(random);
    FairQueue::Bounds bounds;
    const bool by_count = random.Chance(50);
    if (by_count) {
      bounds.waiting = random.Between(0, calls + 1);
    } else {
      bounds.cost = random.Between(0, 2 * model.Cost() + 1);
    }
    const FairQueue::Room room = queue.MakeRoom(job, cost, bounds);
    if (!room.admitted) {
      EXPECT_TRUE(room.pushed_out.empty());
      ++refused;
      // Where one call fewer would do, no job has one to spare and more than this one would have.
      if (by_count && model.waiting().size() == bounds.waiting) {
        for (const ModelCall& call : model.waiting()) {
          const size_t its_calls = model.Held(call.job).first;
          EXPECT_TRUE(its_calls < 2 || its_calls <= model.Held(job).first + 1);
        }
      }
      continue;
    }
    const auto [my_calls, my_cost] = model.Held(job);
    std::set<std::string> losers;
    for (const uint64_t id : room.pushed_out) {
      const auto victim = std::find_if(model.waiting().begin(), model.waiting().end(),
                                       [id](const ModelCall& call) { return call.id == id; });
      ASSERT_NE(victim, model.waiting().end()) << "not a waiting call";
      const std::string loser = victim->job;
      losers.insert(loser);
      EXPECT_NE(loser, job);
      const auto [its_calls, its_cost] = model.Held(loser);
      EXPECT_GE(its_calls, 2U) << "a job keeps one call";
      if (by_count) {
        EXPECT_GT(its_calls, my_calls + 1);
      } else {
        EXPECT_GT(its_cost, my_cost + cost);
      }
      // Its newest.
      EXPECT_TRUE(std::none_of(model.waiting().begin(), model.waiting().end(),
                               [&](const ModelCall& c) { return c.job == loser && c.id > id; }));
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

TEST(FairQueueTest, WhatWasPushedOutDoesNotPushOutInItsTurn) {
  FairQueue queue;
  const FairQueue::Bounds bounds = {.waiting = 8};
  for (uint64_t id = 1; id <= 8; ++id) queue.Push("a", id, 100);
  uint64_t last = 8;
  // Job b comes in until both hold the same; from then on both are refused.
  for (int i = 0; i < 20; ++i) {
    for (const std::string job : {"b", "a"}) {
      const FairQueue::Room room = queue.MakeRoom(job, 100, bounds);
      EXPECT_EQ(room.admitted, job == "b" && i < 4) << job << i;
      if (!room.admitted) continue;
      for (const uint64_t id : room.pushed_out) queue.Remove(id);
      queue.Push(job, ++last, 100);
    }
  }
  EXPECT_EQ(queue.waiting(), 8U);
}

TEST(FairQueueTest, ACallLargerThanTheBoundIsLetInAlone) {
  FairQueue queue;
  const FairQueue::Bounds bounds = {.waiting = 8, .cost = 1000};
  EXPECT_TRUE(queue.MakeRoom("a", 5000, bounds).admitted);
  queue.Push("a", 1, 5000);
  EXPECT_FALSE(queue.MakeRoom("b", 1, bounds).admitted) << "a job keeps its only call";
  queue.Pop();
  EXPECT_FALSE(queue.MakeRoom("b", 1, bounds).admitted);
  queue.Done(1);
  EXPECT_TRUE(queue.MakeRoom("b", 5000, bounds).admitted);
}

TEST(FairQueueTest, WhatIsAheadIsItsJobsWorkAndTheOthersTurnsUntilThen) {
  FairQueue queue;
  EXPECT_EQ(queue.CostAhead("a"), 0U);
  queue.Push("a", 1, 1000);
  queue.Push("a", 2, 1000);
  queue.Push("b", 3, 500);
  queue.Push("c", 4, 100'000);
  EXPECT_EQ(queue.CostAhead("a"), 2000U + 500U + 2000U);
  EXPECT_EQ(queue.CostAhead("b"), 500U + 500U + 500U);
  EXPECT_EQ(queue.CostAhead("d"), 0U);
}

}  // namespace
}  // namespace batchplan
