#include "server/service/fair_queue.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "tests/support/generators.h"

namespace batchplan {
namespace {

using testing::RandomStream;
using testing::Seeds;
using Call = FairQueue::Call;

constexpr size_t kPlenty = 1000;

Instant At(absl::Duration time) { return Instant(absl::ToChronoNanoseconds(time)); }

Call MakeCall(const std::string& owner, const std::string& job, uint64_t id, uint64_t cost = 100,
              absl::Duration time = absl::Milliseconds(1)) {
  return {.owner = owner, .job = job, .id = id, .cost = cost, .time = time};
}

// The queue's rules as its header has them, looked up in vectors each time, while time stands
// still.
class Model {
 public:
  // Whose turn a call takes: its owner, and its job, or nothing for a newcomer.
  using Place = std::pair<std::string, std::optional<std::string>>;

  void Push(const Call& call) {
    const Place place = PlaceOf(call.owner, call.job);
    Owner& owner = owners_[call.owner];
    if (!Waits([&](const Call& one) { return one.owner == call.owner; })) {
      owner.used = std::max(owner.used, reached_);
    }
    absl::Duration& used = owner.jobs[place.second].used;
    if (!Waits([&](const Call& one) { return placed_[one.id] == place; })) {
      used = std::max(used, owner.reached);
    }
    placed_[call.id] = place;
    waiting_.push_back(call);
  }

  std::optional<uint64_t> Pop(size_t free_threads) {
    free_threads_ = free_threads;
    const Call* next = nullptr;
    for (const Call& call : waiting_) {
      if (!Allowed(call)) continue;
      if (next == nullptr || Rank(call) < Rank(*next)) next = &call;
    }
    if (next == nullptr) return std::nullopt;
    const Call call = *next;
    Owner& owner = owners_[call.owner];
    Job& job = owner.jobs[placed_[call.id].second];
    reached_ = std::max(reached_, owner.used);
    owner.reached = std::max(owner.reached, job.used);
    owner.used += call.time;
    job.used += call.time;
    std::erase_if(waiting_, [&](const Call& one) { return one.id == call.id; });
    taken_.push_back(call);
    return call.id;
  }

  void Done(uint64_t id, absl::Duration time) {
    const auto found = Find(taken_, id);
    const Call call = *found;
    taken_.erase(found);
    Owner& owner = owners_[call.owner];
    const Place place = placed_[id];
    owner.used += time - call.time;
    owner.jobs[place.second].used += time - call.time;
    if (!place.second.has_value() && !owner.jobs.contains(call.job)) {
      owner.jobs[call.job].used = owner.reached + time;
      for (const auto* calls : {&waiting_, &taken_}) {
        for (const Call& one : *calls) {
          if (one.owner == call.owner && one.job == call.job) placed_[one.id].second = call.job;
        }
      }
    }
  }

  bool Remove(uint64_t id) {
    const auto found = Find(waiting_, id);
    if (found == waiting_.end()) return false;
    const std::string owner = found->owner;
    waiting_.erase(found);
    if (owners_[owner].jobs.size() == 1 && !Held(owner).first) owners_.erase(owner);
    return true;
  }

  const std::vector<Call>& waiting() const { return waiting_; }
  const std::vector<Call>& taken() const { return taken_; }

  uint64_t Cost() const {
    uint64_t cost = 0;
    for (const auto* calls : {&waiting_, &taken_}) {
      for (const Call& call : *calls) cost += call.cost;
    }
    return cost;
  }

  Place PlaceOf(const std::string& owner, const std::string& job) const {
    const auto found = owners_.find(owner);
    if (found == owners_.end() || !found->second.jobs.contains(job)) return {owner, std::nullopt};
    return {owner, job};
  }
  const Place& PlaceOf(const Call& call) const { return placed_.at(call.id); }

  // Calls and cost of a place or of an owner, waiting or taken.
  std::pair<size_t, uint64_t> Held(const Place& place) const {
    return Sum([&](const Call& call) { return placed_.at(call.id) == place; });
  }
  std::pair<size_t, uint64_t> Held(const std::string& owner) const {
    return Sum([&](const Call& call) { return call.owner == owner; });
  }

 private:
  struct Job {
    absl::Duration used;
  };
  struct Owner {
    absl::Duration used;
    absl::Duration reached;
    // Newcomers under no name.
    std::map<std::optional<std::string>, Job> jobs = {{std::nullopt, {}}};
  };

  static std::vector<Call>::iterator Find(std::vector<Call>& calls, uint64_t id) {
    return std::find_if(calls.begin(), calls.end(), [id](const Call& c) { return c.id == id; });
  }
  template <typename Which>
  bool Waits(const Which& which) const {
    return std::any_of(waiting_.begin(), waiting_.end(), which);
  }
  template <typename Which>
  std::pair<size_t, uint64_t> Sum(const Which& which) const {
    std::pair<size_t, uint64_t> held;
    for (const auto* calls : {&waiting_, &taken_}) {
      for (const Call& call : *calls) {
        if (!which(call)) continue;
        ++held.first;
        held.second += call.cost;
      }
    }
    return held;
  }

  bool Allowed(const Call& call) const {
    if (free_threads_ != 1) return free_threads_ > 0;
    const bool newcomer = !PlaceOf(call).second.has_value();
    size_t newcomers = 0;
    for (const Call& held : taken_) {
      if (held.owner != call.owner) continue;
      if (held.job == call.job || owners_.size() > 1) return false;
      if (newcomer && !PlaceOf(held).second.has_value()) ++newcomers;
    }
    return newcomers < 2;
  }

  // The least goes first. Older calls of a place come before newer ones, which have the same used.
  std::tuple<absl::Duration, uint64_t, absl::Duration, uint64_t> Rank(const Call& call) {
    const Owner& owner = owners_[call.owner];
    return {owner.used, OldestAllowed(call.owner), owner.jobs.at(placed_[call.id].second).used,
            call.id};
  }
  // The call that the owner would have served next, which breaks ties between owners.
  uint64_t OldestAllowed(const std::string& owner) {
    std::optional<std::pair<absl::Duration, uint64_t>> best;
    for (const Call& call : waiting_) {
      if (call.owner != owner || !Allowed(call)) continue;
      const auto rank = std::pair(owners_[owner].jobs.at(placed_[call.id].second).used, call.id);
      if (!best.has_value() || rank < *best) best = rank;
    }
    return best.has_value() ? best->second : 0;
  }

  size_t free_threads_ = 0;
  std::map<std::string, Owner> owners_;
  std::map<uint64_t, Place> placed_;
  absl::Duration reached_;
  std::vector<Call> waiting_;
  std::vector<Call> taken_;
};

uint64_t RandomCost(RandomStream& random) {
  return random.Between(1, random.Chance(10) ? 200'000 : random.Chance(50) ? 3000 : 300);
}

absl::Duration RandomTime(RandomStream& random) {
  return absl::Microseconds(random.Between(0, random.Chance(10) ? 2'000'000 : 3000));
}

std::string RandomName(RandomStream& random, char first, uint64_t names) {
  return std::string(1, static_cast<char>(first + static_cast<char>(random.Between(0, names - 1))));
}

Call RandomCall(RandomStream& random, uint64_t id) {
  return MakeCall(RandomName(random, 'A', 3), RandomName(random, 'a', 4), id, RandomCost(random),
                  RandomTime(random));
}

TEST(FairQueueTest, DoesWhatTheModelDoes) {
  for (const uint64_t seed : Seeds(100)) {
    SCOPED_TRACE(seed);
    RandomStream random(seed);
    FairQueue queue;
    Model model;
    const Instant now = At(absl::Seconds(1));
    const auto pop = [&](size_t free) { ASSERT_EQ(queue.Pop(free), model.Pop(free)); };
    uint64_t last = 0;
    for (int i = 0; i < 300; ++i) {
      const uint64_t choice = random.Between(0, 9);
      if (choice < 4) {
        const Call call = RandomCall(random, ++last);
        queue.Push(call, now);
        model.Push(call);
      } else if (choice < 7) {
        pop(random.Chance(50) ? random.Between(0, 2) : kPlenty);
      } else if (choice < 8) {
        const uint64_t id = random.Between(0, last);
        ASSERT_EQ(queue.Remove(id), model.Remove(id));
      } else if (!model.taken().empty()) {
        const uint64_t id = random.OneOf(model.taken()).id;
        const absl::Duration time = RandomTime(random);
        queue.Done(id, time, now);
        model.Done(id, time);
      }
      ASSERT_FALSE(HasFatalFailure());
      ASSERT_EQ(queue.waiting(), model.waiting().size());
      ASSERT_EQ(queue.cost(), model.Cost());
      ASSERT_EQ(queue.empty(), model.waiting().empty() && model.taken().empty());
    }
    while (queue.waiting() > 0) {
      pop(kPlenty);
      ASSERT_FALSE(HasFatalFailure());
    }
    for (const Call& call : model.taken()) queue.Done(call.id, absl::ZeroDuration(), now);
    EXPECT_TRUE(queue.empty());
    EXPECT_EQ(queue.waiting_time(), absl::ZeroDuration());
    EXPECT_EQ(queue.cost(), 0U);
  }
}

// Who always has calls waiting, each with what a call of theirs takes and is estimated to take.
struct Sender {
  Call call;
  absl::Duration takes;
  // A new job for every call.
  bool fresh_jobs = false;
};

// What each sender has got of one thread after so many calls, by owner and by owner/job.
std::map<std::string, absl::Duration> Served(const std::vector<Sender>& senders, int calls) {
  FairQueue queue;
  const Instant now = At(absl::Seconds(1));
  std::map<uint64_t, const Sender*> sent;
  std::map<std::string, absl::Duration> served;
  uint64_t last = 0;
  const auto push = [&](const Sender& sender) {
    Call call = sender.call;
    call.id = ++last;
    if (sender.fresh_jobs) call.job += std::to_string(last);
    sent[last] = &sender;
    queue.Push(call, now);
  };
  for (int i = 0; i < 3; ++i) {
    for (const Sender& sender : senders) push(sender);
  }
  for (int i = 0; i < calls; ++i) {
    const std::optional<uint64_t> id = queue.Pop(kPlenty);
    if (!id.has_value()) break;
    const Sender& sender = *sent[*id];
    queue.Done(*id, sender.takes, now);
    served[sender.call.owner] += sender.takes;
    served[sender.call.owner + "/" + sender.call.job] += sender.takes;
    push(sender);
  }
  return served;
}

TEST(FairQueueTest, OwnersAndTheirJobsGetTheSameTimeWhateverTheySendAndSay) {
  const absl::Duration longest = absl::Seconds(2);
  // The costs tell nothing of the times, nor do the estimates.
  const std::map<std::string, absl::Duration> served = Served(
      {
          {.call = MakeCall("A", "long", 0, 1, absl::Milliseconds(1)), .takes = longest},
          {.call = MakeCall("B", "short", 0, 9000, absl::Seconds(1)),
           .takes = absl::Milliseconds(10)},
          {.call = MakeCall("B", "long", 0, 1, absl::ZeroDuration()), .takes = absl::Seconds(1)},
          {.call = MakeCall("B", "other", 0, 100, absl::Milliseconds(30)),
           .takes = absl::Milliseconds(30)},
      },
      20'000);
  EXPECT_LT(absl::AbsDuration(served.at("A") - served.at("B")), 2 * longest);
  for (const char* job : {"B/short", "B/long", "B/other"}) {
    EXPECT_LT(absl::AbsDuration(3 * served.at(job) - served.at("B")), 6 * longest) << job;
  }
  EXPECT_GT(served.at("B"), absl::Seconds(100));
}

TEST(FairQueueTest, FreshJobsGainNothing) {
  const absl::Duration second = absl::Seconds(1);
  const std::map<std::string, absl::Duration> served = Served(
      {
          {.call = MakeCall("A", "steady", 0), .takes = absl::Milliseconds(10)},
          {.call = MakeCall("A", "fresh-", 0), .takes = second, .fresh_jobs = true},
          {.call = MakeCall("A", "fresher-", 0), .takes = second, .fresh_jobs = true},
          {.call = MakeCall("B", "steady", 0), .takes = second},
          {.call = MakeCall("C", "fresh-", 0), .takes = second, .fresh_jobs = true},
      },
      20'000);
  // All that come with new names are together one job of their owner.
  EXPECT_LT(
      absl::AbsDuration(served.at("A/steady") - served.at("A/fresh-") - served.at("A/fresher-")),
      4 * second);
  EXPECT_LT(absl::AbsDuration(served.at("A") - served.at("B")), 4 * second);
  EXPECT_LT(absl::AbsDuration(served.at("A") - served.at("C")), 4 * second);
}

TEST(FairQueueTest, WhoComesBackAfterEachLongCallIsChargedForIt) {
  FairQueue queue;
  const Instant now = At(absl::Seconds(1));
  uint64_t last = 0;
  std::set<uint64_t> slow;
  const auto push = [&](const std::string& owner) {
    queue.Push(MakeCall(owner, "job", ++last), now);
    if (owner == "slow") slow.insert(last);
  };
  for (int i = 0; i < 5; ++i) push("quick");
  push("slow");
  absl::Duration quick_time;
  absl::Duration slow_time;
  for (int i = 0; i < 3000; ++i) {
    const std::optional<uint64_t> id = queue.Pop(kPlenty);
    ASSERT_TRUE(id.has_value());
    const bool was_slow = slow.contains(*id);
    const absl::Duration time = absl::Milliseconds(was_slow ? 1000 : 10);
    (was_slow ? slow_time : quick_time) += time;
    queue.Done(*id, time, now);
    // It has no call waiting from the end of one to the next, which comes at once.
    push(was_slow ? "slow" : "quick");
  }
  EXPECT_LT(absl::AbsDuration(slow_time - quick_time), absl::Seconds(2));
}

TEST(FairQueueTest, WhatWasUsedIsForgottenAfterAWhile) {
  FairQueue queue;
  const Instant now = At(absl::Seconds(1));
  const Instant later = now + absl::ToChronoNanoseconds(FairQueue::kRemembered);
  uint64_t last = 0;
  const auto spend = [&](const std::string& owner, absl::Duration time) {
    queue.Push(MakeCall(owner, "job", ++last), now);
    const std::optional<uint64_t> id = queue.Pop(kPlenty);
    ASSERT_EQ(id, last);
    queue.Done(*id, time, now);
  };
  spend("A", absl::Hours(1));
  spend("B", absl::Seconds(1));
  queue.Push(MakeCall("A", "job", 10), now);
  queue.Push(MakeCall("B", "job", 11), now);
  EXPECT_EQ(queue.Pop(kPlenty), 11U);
  queue.Done(11, absl::Seconds(1), now);
  EXPECT_EQ(queue.Pop(kPlenty), 10U);
  queue.Done(10, absl::Hours(1), now);
  queue.Push(MakeCall("A", "job", 12), later);
  queue.Push(MakeCall("B", "job", 13), later);
  EXPECT_EQ(queue.Pop(kPlenty), 12U);
}

TEST(FairQueueTest, OnlySoManyIdleJobsAreRemembered) {
  FairQueue queue;
  const Instant now = At(absl::Seconds(1));
  for (uint64_t id = 1; id <= 3 * FairQueue::kMaxIdleJobs; ++id) {
    queue.Push(MakeCall("A" + std::to_string(id % 7), std::to_string(id), id), now);
    ASSERT_EQ(queue.Pop(kPlenty), id);
    queue.Done(id, absl::Milliseconds(1), now);
  }
  EXPECT_TRUE(queue.empty());
}

TEST(FairQueueTest, AJobsOwnCallsKeepTheirOrder) {
  FairQueue queue;
  const Instant now = At(absl::Seconds(1));
  for (uint64_t id = 1; id <= 50; ++id) {
    queue.Push(MakeCall("A", id % 2 == 0 ? "a" : "b", id, id * 100), now);
  }
  uint64_t last[2] = {0, 0};
  while (const std::optional<uint64_t> id = queue.Pop(kPlenty)) {
    EXPECT_GT(*id, last[*id % 2]);
    last[*id % 2] = *id;
    if (*id % 3 != 0) queue.Done(*id, absl::Milliseconds(*id % 7), now);
  }
  EXPECT_EQ(last[0], 50U);
  EXPECT_EQ(last[1], 49U);
}

TEST(FairQueueTest, TheLastFreeThreadGoesToNoJobThatHasOne) {
  FairQueue queue;
  const Instant now = At(absl::Seconds(1));
  queue.Push(MakeCall("A", "greedy", 1), now);
  EXPECT_EQ(queue.Pop(1), 1U);
  queue.Done(1, absl::Seconds(1), now);
  for (uint64_t id = 2; id <= 5; ++id) queue.Push(MakeCall("A", "greedy", id), now);
  EXPECT_EQ(queue.Pop(3), 2U);
  EXPECT_EQ(queue.Pop(2), 3U);
  EXPECT_EQ(queue.Pop(1), std::nullopt) << "though nobody else waits for it";
  queue.Push(MakeCall("A", "other", 6), now);
  EXPECT_EQ(queue.Pop(1), 6U);
  EXPECT_EQ(queue.Pop(0), std::nullopt);
  queue.Done(2, absl::Seconds(30), now);
  EXPECT_EQ(queue.Pop(1), std::nullopt);
  queue.Done(6, absl::Seconds(30), now);
  EXPECT_EQ(queue.Pop(2), 4U);
}

TEST(FairQueueTest, TheLastFreeThreadGoesToANewcomerBesideOneOtherButNotBesideMore) {
  FairQueue queue;
  const Instant now = At(absl::Seconds(1));
  for (uint64_t id = 1; id <= 3; ++id) queue.Push(MakeCall("A", "greedy", id), now);
  queue.Push(MakeCall("A", "new", 4), now);
  EXPECT_EQ(queue.Pop(2), 1U);
  EXPECT_EQ(queue.Pop(1), 4U) << "past the older calls of the job that has a thread";
  queue.Push(MakeCall("A", "newer", 5), now);
  EXPECT_EQ(queue.Pop(1), std::nullopt);
  queue.Done(4, absl::Seconds(1), now);
  queue.Push(MakeCall("A", "new", 6), now);
  EXPECT_EQ(queue.Pop(1), 5U);
  EXPECT_EQ(queue.Pop(1), 6U) << "which is known by now";
}

TEST(FairQueueTest, TheLastFreeThreadGoesToNoOwnerThatHasOneWhereThereAreOthers) {
  FairQueue queue;
  const Instant now = At(absl::Seconds(1));
  const auto serve = [&](const std::string& owner, const std::string& job, uint64_t id) {
    queue.Push(MakeCall(owner, job, id), now);
    ASSERT_EQ(queue.Pop(2), id);
    queue.Done(id, absl::Milliseconds(1), now);
  };
  serve("A", "a", 1);
  serve("A", "b", 2);
  queue.Push(MakeCall("A", "a", 3), now);
  queue.Push(MakeCall("A", "b", 4), now);
  EXPECT_EQ(queue.Pop(2), 3U);
  EXPECT_EQ(queue.Pop(1), 4U) << "there is only one owner";
  queue.Done(3, absl::Milliseconds(1), now);
  queue.Push(MakeCall("A", "a", 5), now);
  queue.Push(MakeCall("B", "a", 6), now);
  EXPECT_EQ(queue.Pop(1), 6U);
  queue.Done(6, absl::Milliseconds(1), now);
  EXPECT_EQ(queue.Pop(1), std::nullopt) << "B may come back";
  queue.Done(4, absl::Milliseconds(1), now);
  EXPECT_EQ(queue.Pop(2), 5U);
}

TEST(FairQueueTest, RoomIsMadeByTheRules) {
  uint64_t refused = 0;
  uint64_t made = 0;
  for (const uint64_t seed : Seeds(1500)) {
    SCOPED_TRACE(seed);
    RandomStream random(seed);
    FairQueue queue;
    Model model;
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
    const Model::Place place = model.PlaceOf(owner, job);
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
      // Where one call fewer would do, nobody has one to spare and more than this one would have.
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
      const Model::Place loser = model.PlaceOf(*victim);
      EXPECT_NE(loser, place);
      const uint64_t added = by_count ? 1 : cost;
      if (victim->owner != owner) {
        EXPECT_GE(model.Held(victim->owner).first, 2U) << "an owner keeps one call";
        EXPECT_GT(measure(model.Held(victim->owner)), measure(model.Held(owner)) + added);
      } else {
        EXPECT_GE(model.Held(loser).first, 2U) << "a job keeps one call beside its owner's others";
        EXPECT_GT(measure(model.Held(loser)), measure(model.Held(place)) + added);
      }
      // Its newest.
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

TEST(FairQueueTest, AQueueFullOfFreshJobsMakesRoomForAKnownOneOfTheSameOwner) {
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

TEST(FairQueueTest, WhatWasPushedOutDoesNotPushOutInItsTurn) {
  FairQueue queue;
  const Instant now = At(absl::Seconds(1));
  const FairQueue::Bounds bounds = {.waiting = 8};
  for (uint64_t id = 1; id <= 8; ++id) queue.Push(MakeCall("A", "a", id), now);
  uint64_t last = 8;
  // B comes in until both hold the same; from then on both are refused.
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

TEST(FairQueueTest, ACallLargerThanTheBoundIsLetInAlone) {
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

TEST(FairQueueTest, WhatIsAheadIsItsJobsWorkAndTheOthersTurnsUntilThen) {
  FairQueue queue;
  const Instant now = At(absl::Seconds(1));
  EXPECT_EQ(queue.TimeAhead("A", "a"), absl::ZeroDuration());
  uint64_t last = 0;
  for (const char* job : {"a", "b"}) {
    queue.Push(MakeCall("A", job, ++last), now);
    queue.Pop(kPlenty);
    queue.Done(last, absl::ZeroDuration(), now);
  }
  const auto push = [&](const std::string& owner, const std::string& job, int seconds) {
    queue.Push(MakeCall(owner, job, ++last, 1, absl::Seconds(seconds)), now);
  };
  push("A", "a", 10);
  push("A", "a", 10);
  push("A", "b", 5);
  push("A", "new", 100);
  push("B", "a", 1000);
  EXPECT_EQ(queue.TimeAhead("A", "a"), absl::Seconds(20 + 5 + 20 + 45));
  EXPECT_EQ(queue.TimeAhead("A", "b"), absl::Seconds(5 + 5 + 5 + 15));
  EXPECT_EQ(queue.TimeAhead("C", "a"), absl::ZeroDuration());
}

}  // namespace
}  // namespace batchplan
