// Who has the next turn in a FairQueue.

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "server/service/admission/fair_queue.h"
#include "tests/server/service/admission/fair_queue_model.h"
#include "tests/support/generators.h"

namespace batchplan {
namespace {

using testing::RandomStream;
using testing::Seeds;
using Call = FairQueue::Call;

TEST(FairQueueTest, DoesWhatTheModelDoes) {
  for (const uint64_t seed : Seeds(100)) {
    SCOPED_TRACE(seed);
    RandomStream random(seed);
    FairQueue queue;
    FairQueueModel model;
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

// A sender whose calls always wait, with the true and the estimated time of its calls.
struct Sender {
  Call call;
  absl::Duration takes;
  // A new job for every call.
  bool fresh_jobs = false;
};

// The time of one thread that each sender has got after `calls` calls, by owner and by owner/job.
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
  // Costs and estimates do not show the true times.
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
  // All new names of an owner together count as one job.
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
    // Between the end of a call and the next one, which comes at once, it has no call waiting.
    push(was_slow ? "slow" : "quick");
  }
  EXPECT_LT(absl::AbsDuration(slow_time - quick_time), absl::Seconds(2));
}

TEST(FairQueueTest, WhatWasUsedIsForgottenAfterAWhile) {
  FairQueue queue;
  const Instant now = At(absl::Seconds(1));
  const Instant later = now + absl::ToChronoNanoseconds(FairQueue::kRemembered);
  queue.Push(MakeCall("A", "job", 1), now);
  queue.Push(MakeCall("B", "job", 2), now);
  EXPECT_EQ(queue.Pop(kPlenty), 1U);
  queue.Done(1, absl::Hours(1), now);
  EXPECT_EQ(queue.Pop(kPlenty), 2U);
  queue.Done(2, absl::Seconds(1), now);
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

// Many jobs whose calls come in turn, a few at a time, and take one to three milliseconds; one
// takes 60. What a job had before the others is made up for by the time that it comes again, and no
// call waits for more than those before it.
TEST(FairQueueTest, JobsThatComeInTurnDoNotWaitForAllOthersToCatchUp) {
  constexpr uint64_t kJobs = 500;
  constexpr uint64_t kAtOnce = 8;
  constexpr uint64_t kLong = 2 * kJobs;
  FairQueue queue;
  absl::Duration time;
  std::map<uint64_t, absl::Duration> since;
  absl::Duration longest;
  uint64_t last = 0;
  const auto push = [&] {
    since[++last] = time;
    queue.Push(MakeCall("A", std::to_string(last % kJobs), last, 100, absl::Milliseconds(2)),
               At(time));
  };
  while (last < kAtOnce) push();
  while (last < 20 * kJobs) {
    const std::optional<uint64_t> id = queue.Pop(kPlenty);
    ASSERT_TRUE(id.has_value());
    longest = std::max(longest, time - since.extract(*id).mapped());
    const absl::Duration used = absl::Milliseconds(*id == kLong ? 60 : 1 + *id % kJobs % 3);
    time += used;
    queue.Done(*id, used, At(time));
    push();
  }
  for (const auto& [id, begin] : since) longest = std::max(longest, time - begin);
  EXPECT_LE(longest, absl::Milliseconds(60 + 3 * kAtOnce));
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

TEST(FairQueueTest, TheLastFreeThreadGoesToShortCallsOfAKnownJob) {
  FairQueue queue;
  const Instant now = At(absl::Seconds(1));
  const absl::Duration brief = FairQueue::kShort;
  const absl::Duration longer = brief + absl::Nanoseconds(1);
  queue.Push(MakeCall("A", "known", 1, 1, brief), now);
  queue.Push(MakeCall("A", "known", 2, 1, brief), now);
  EXPECT_EQ(queue.Pop(2), 1U);
  EXPECT_EQ(queue.Pop(1), std::nullopt) << "before anything of it is done";
  queue.Done(1, brief, now);
  EXPECT_EQ(queue.Pop(2), 2U);
  queue.Push(MakeCall("A", "known", 3, 1, brief), now);
  EXPECT_TRUE(queue.MayHaveLast("A", "known", brief));
  EXPECT_EQ(queue.Pop(1), 3U);
  queue.Push(MakeCall("A", "known", 4, 1, longer), now);
  queue.Push(MakeCall("A", "known", 5, 1, brief), now);
  EXPECT_FALSE(queue.MayHaveLast("A", "known", longer));
  EXPECT_EQ(queue.Pop(1), std::nullopt) << "the job's oldest call comes first";
  EXPECT_FALSE(queue.MayHaveLast("A", "known", absl::ZeroDuration())) << "nothing is known of it";
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
