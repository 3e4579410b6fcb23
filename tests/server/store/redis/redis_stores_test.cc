// The stores over a redis-server that fails in various ways.

#include "server/store/redis/redis_stores.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <latch>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/support/generators.h"
#include "tests/support/redis_server.h"
#include "tests/support/reserved_port.h"

namespace batchplan::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// Patient on a busy machine, and without a pause after a failure.
const RedisStoresOptions kPatient = {.client = {.connect_timeout = absl::Seconds(20),
                                                .command_timeout = absl::Seconds(20),
                                                .retry_delay = absl::ZeroDuration()}};

const StepKey kKey = {.job_id = "job", .step = 7};

StepPart Part(uint32_t worker, uint32_t world_size, std::string content = "content") {
  return {
      .worker = worker, .world_size = world_size, .terms = "terms", .content = std::move(content)};
}

RedisStores Open(const std::string& url, const RedisStoresOptions& options = kPatient) {
  return OpenRedisStores(url, options).value();
}

// Writes an outcome for the step's current incarnation; returns the outcome that stands.
absl::StatusOr<std::string> PutOutcome(StepStore& store, const StepKey& key,
                                       const std::string& outcome) {
  const absl::StatusOr<StepProgress> progress = store.Progress(key, "");
  if (!progress.ok()) return progress.status();
  const absl::StatusOr<StandingOutcome> stands =
      store.PutOutcome(key, progress->incarnation, {.bytes = outcome});
  if (!stands.ok()) return stands.status();
  return stands->bytes;
}

// Makes all calls of a store, in the order of a step with one worker; returns the first error.
absl::Status UseAll(RedisStores& stores, const StepKey& key) {
  absl::Status status = stores.steps->PutPart(key, Part(0, 1)).status();
  status.Update(stores.steps->Progress(key, "").status());
  status.Update(stores.steps->Parts(key).status());
  status.Update(PutOutcome(*stores.steps, key, "outcome").status());
  status.Update(stores.steps->MarkServed(key, stores.steps->Parts(key)->incarnation, {0}));
  status.Update(stores.steps->Progress(key, "here").status());
  status.Update(stores.steps->Leave(key, "here"));
  const WholeStep whole = {.terms = "terms", .contents = {"content"}, .outcome = "outcome"};
  status.Update(stores.steps->Restore(key, whole).status());
  const absl::StatusOr<StoredFit> fit = stores.fits->Get(key.job_id);
  status.Update(fit.status());
  if (fit.ok())
    status.Update(stores.fits->Replace(key.job_id, fit->version, "state", "owner").status());
  return status;
}

// Expects that every call fails with `code`.
void ExpectAllFail(RedisStores& stores, absl::StatusCode code) {
  EXPECT_EQ(stores.steps->PutPart(kKey, Part(0, 1)).status().code(), code);
  EXPECT_EQ(stores.steps->Progress(kKey, "").status().code(), code);
  EXPECT_EQ(stores.steps->Parts(kKey).status().code(), code);
  EXPECT_EQ(stores.steps->PutOutcome(kKey, "", {.bytes = "outcome"}).status().code(), code);
  EXPECT_EQ(stores.steps->MarkServed(kKey, "", {0}).code(), code);
  EXPECT_EQ(stores.steps->Restore(kKey, WholeStep()).status().code(), code);
  EXPECT_EQ(stores.fits->Get("job").status().code(), code);
  EXPECT_EQ(stores.fits->Replace("job", 0, "state", "owner").status().code(), code);
}

TEST(RedisStoresTest, AUrlThatIsNoneIsRefusedWithoutItsPassword) {
  const absl::Status status = OpenRedisStores("http://:secret@redis", {}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), Not(HasSubstr("secret")));
}

TEST(RedisStoresTest, AClusterIsRefusedAtOnceWithWhatWouldDo) {
  const ReservedPort bus;
  RedisServer redis({"--cluster-enabled", "yes", "--cluster-port", std::to_string(bus.number())});
  for (const bool slots : {false, true}) {
    if (slots) {
      ASSERT_EQ(redis.Command({"CLUSTER", "ADDSLOTSRANGE", "0", "16383"}), "OK");
      while (redis.Command({"CLUSTER", "INFO"}).find("cluster_state:ok") == std::string::npos) {
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
      }
    }
    const absl::Status status = OpenRedisStores(redis.url(), kPatient).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    EXPECT_THAT(std::string(status.message()),
                ::testing::AllOf(HasSubstr(redis.url()), HasSubstr("is a Redis Cluster"),
                                 HasSubstr("redis+sentinel://")));
  }
}

TEST(RedisStoresTest, ARedisThatIsDownAtStartIsFoundWhenItIsThere) {
  RedisServer redis;
  redis.Kill();
  RedisStores stores = Open(redis.url());
  ExpectAllFail(stores, absl::StatusCode::kUnavailable);
  const absl::Status status = stores.steps->PutPart(kKey, Part(0, 1)).status();
  EXPECT_EQ(std::string(status.message()),
            "the rendezvous store " + redis.url() +
                " can't be reached: Connection refused; JoinBatch and fitted costs wait for it, "
                "PlanBatch does not need it; check --rendezvous_store, then retry");
  redis.Start();
  EXPECT_EQ(UseAll(stores, kKey), absl::OkStatus());
}

TEST(RedisStoresTest, WhatARestartForgetsBeginsAnewButForFits) {
  RedisServer redis;
  RedisStores stores = Open(redis.url());
  ASSERT_TRUE(stores.steps->PutPart(kKey, Part(0, 2)).ok());
  ASSERT_TRUE(stores.fits->Replace("job", 0, "state", "owner").value());
  const uint64_t version = stores.fits->Get("job")->version;
  for (const bool flushed : {false, true}) {
    if (flushed) {
      redis.Command({"FLUSHALL"});
    } else {
      redis.Kill();
      redis.Start();
    }
    EXPECT_TRUE(stores.steps->Progress(kKey, "")->arrived.empty());
    EXPECT_EQ(stores.steps->Parts(kKey).status().code(), absl::StatusCode::kNotFound);
    EXPECT_FALSE(stores.steps->PutPart(kKey, Part(1, 2))->complete);
    EXPECT_TRUE(stores.steps->PutPart(kKey, Part(0, 2))->complete);
    EXPECT_EQ(PutOutcome(*stores.steps, kKey, "outcome").value(), "outcome");

    // A fit comes back, from whoever remembers it, with another version.
    EXPECT_EQ(stores.fits->Get("job")->state, "state");
    EXPECT_GT(stores.fits->Get("job")->version, version);
    EXPECT_FALSE(stores.fits->Replace("job", version, "of old", "owner").value());
  }
}

TEST(RedisStoresTest, WhatARestartKeepsGoesOn) {
  RedisServer redis({"--appendonly", "yes", "--appendfsync", "always"});
  RedisStores stores = Open(redis.url());
  ASSERT_TRUE(stores.steps->PutPart(kKey, Part(0, 2, "a")).ok());
  redis.Kill();
  redis.Start();
  EXPECT_TRUE(stores.steps->PutPart(kKey, Part(1, 2, "b"))->complete);
  redis.Kill();
  redis.Start();
  EXPECT_THAT(stores.steps->Parts(kKey)->contents, ::testing::ElementsAre("a", "b"));
  EXPECT_EQ(PutOutcome(*stores.steps, kKey, "outcome").value(), "outcome");
  redis.Kill();
  redis.Start();
  EXPECT_EQ(PutOutcome(*stores.steps, kKey, "another").value(), "outcome");
}

TEST(RedisStoresTest, ARedisThatHangsCostsOneCallTheTimeOutAndTheNextOnesNothing) {
  RedisServer redis;
  RedisStores stores = Open(redis.url(), {.client = {.connect_timeout = absl::Milliseconds(200),
                                                     .command_timeout = absl::Milliseconds(200),
                                                     .retry_delay = absl::Seconds(5)}});
  ASSERT_EQ(UseAll(stores, kKey), absl::OkStatus());
  redis.Freeze();
  const Instant start = std::chrono::steady_clock::now();
  EXPECT_EQ(stores.steps->Progress(kKey, "").status().code(), absl::StatusCode::kUnavailable);
  EXPECT_GE(std::chrono::steady_clock::now() - start, std::chrono::milliseconds(200));
  // A hundred time-outs would be 20 seconds.
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(stores.steps->Progress(kKey, "").status().code(), absl::StatusCode::kUnavailable);
  }
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(4));
  redis.Thaw();
}

TEST(RedisStoresTest, AfterAHangEverythingGoesOn) {
  RedisServer redis;
  RedisStoresOptions options = kPatient;
  options.client.connect_timeout = absl::Milliseconds(200);
  options.client.command_timeout = absl::Milliseconds(200);
  RedisStores stores = Open(redis.url(), options);
  for (uint64_t step = 1; step <= 3; ++step) {
    const StepKey key = {.job_id = "job", .step = step};
    redis.Freeze();
    EXPECT_EQ(stores.steps->PutPart(key, Part(0, 2)).status().code(),
              absl::StatusCode::kUnavailable);
    redis.Thaw();
    absl::StatusOr<PartReceipt> receipt;
    // On a busy machine 200 ms may be too short at first.
    for (int i = 0; i < 100 && !receipt.ok(); ++i) {
      receipt = stores.steps->PutPart(key, Part(0, 2));
    }
    ASSERT_TRUE(receipt.ok()) << receipt.status();
    EXPECT_EQ(receipt->verdict, PartReceipt::Verdict::kAccepted);
    EXPECT_FALSE(receipt->complete);
  }
}

TEST(RedisStoresTest, NoRoomIsResourceExhaustedAndLeavesNothingHalfDone) {
  RedisServer redis;
  RedisStores stores = Open(redis.url());
  const StepKey complete = {.job_id = "job", .step = 8};
  ASSERT_TRUE(stores.steps->PutPart(kKey, Part(0, 2, "a")).ok());
  ASSERT_TRUE(stores.steps->PutPart(complete, Part(0, 1)).ok());
  ASSERT_TRUE(stores.fits->Replace("job", 0, "state", "owner").value());
  ASSERT_EQ(redis.Command({"CONFIG", "SET", "maxmemory", "1"}), "OK");

  const absl::Status full = stores.steps->PutPart(kKey, Part(1, 2, "b")).status();
  EXPECT_EQ(full.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(full.message()), HasSubstr("maxmemory"));
  EXPECT_EQ(stores.steps->PutPart({.job_id = "new", .step = 1}, Part(0, 2)).status().code(),
            absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(PutOutcome(*stores.steps, complete, "outcome").status().code(),
            absl::StatusCode::kResourceExhausted);
  const uint64_t version = stores.fits->Get("job")->version;
  EXPECT_EQ(stores.fits->Replace("job", version, "more", "owner").status().code(),
            absl::StatusCode::kResourceExhausted);
  // Asking for an existing step works.
  EXPECT_THAT(stores.steps->Progress(kKey, "")->arrived, ::testing::ElementsAre(0));
  EXPECT_FALSE(stores.steps->PutPart(kKey, Part(0, 2, "a"))->complete);
  EXPECT_EQ(stores.steps->Parts(complete)->contents.size(), 1);

  ASSERT_EQ(redis.Command({"CONFIG", "SET", "maxmemory", "0"}), "OK");
  EXPECT_TRUE(stores.steps->Progress({.job_id = "new", .step = 1}, "")->arrived.empty());
  EXPECT_EQ(stores.fits->Get("job")->version, version);
  EXPECT_TRUE(stores.steps->PutPart(kKey, Part(1, 2, "b"))->complete);
  EXPECT_EQ(PutOutcome(*stores.steps, complete, "outcome").value(), "outcome");
}

TEST(RedisStoresTest, OnlyTheRightPasswordLetsIn) {
  RedisServer redis({"--requirepass", "secret/?"});
  const std::string place = "127.0.0.1:" + std::to_string(redis.port());
  RedisStores right = Open("redis://:secret%2F%3F@" + place);
  EXPECT_EQ(UseAll(right, kKey), absl::OkStatus());
  RedisStores by_user = Open("redis://default:secret%2F%3F@" + place);
  EXPECT_EQ(UseAll(by_user, kKey), absl::OkStatus());
  for (const std::string& url : {"redis://:wrong@" + place, "redis://nobody:secret@" + place,
                                 "redis://" + place, "redis://:secret%2F%3F@" + place + "/99"}) {
    RedisStores wrong = Open(url);
    ExpectAllFail(wrong, absl::StatusCode::kFailedPrecondition);
    const std::string message(wrong.steps->Progress(kKey, "").status().message());
    EXPECT_THAT(message, Not(HasSubstr("wrong@")));
    EXPECT_THAT(message, Not(HasSubstr("secret")));
    EXPECT_THAT(message, HasSubstr(place));
  }
}

TEST(RedisStoresTest, TheRightsThatTheHeaderNamesAreEnough) {
  RedisServer redis;
  ASSERT_EQ(redis.Command({"ACL",          "SETUSER",
                           "planner",      "on",
                           ">secret",      "~batchplan:*",
                           "&batchplan:*", "+evalsha",
                           "+eval",        "+hget",
                           "+hmget",       "+hset",
                           "+hkeys",       "+hgetall",
                           "+hincrby",     "+del",
                           "+exists",      "+sadd",
                           "+srem",        "+zadd",
                           "+zrange",      "+zremrangebyrank",
                           "+pexpire",     "+publish",
                           "+subscribe",   "+ping",
                           "+time",        "+select"}),
            "OK");
  RedisStores stores = Open("redis://planner:secret@127.0.0.1:" + std::to_string(redis.port()));
  EXPECT_EQ(UseAll(stores, kKey), absl::OkStatus());
  EXPECT_EQ(UseAll(stores, {.job_id = "job", .step = 8, .run_id = "1"}), absl::OkStatus());
  EXPECT_EQ(UseAll(stores, {.job_id = "job", .step = 8, .run_id = "2"}), absl::OkStatus());
  // A step that gives way.
  EXPECT_EQ(stores.steps->PutPart(kKey, Part(0, 2, "other"))->complete, false);
  EXPECT_TRUE(stores.steps->PutPart({.job_id = "job", .step = 7, .run_id = "1"}, Part(0, 1)).ok());
  EXPECT_EQ(stores.steps->PutPart({.job_id = "job", .step = 9}, Part(0, 2))->complete, false);
  EXPECT_EQ(stores.steps->Progress({.job_id = "job", .step = 9}, "")->arrived.size(), 1);
  EXPECT_THAT(redis.Command({"PUBSUB", "NUMSUB", "batchplan:v1:steps"}), HasSubstr("\n1\n"));
  EXPECT_THAT(redis.Command({"ACL", "LOG"}), Not(HasSubstr("reason")));
}

TEST(RedisStoresTest, AKeyOfAnotherKindIsAsGoodAsNone) {
  RedisServer redis;
  RedisStores stores = Open(redis.url());
  const StepKey in_run = {.job_id = "job", .step = 8, .run_id = "1"};
  for (const std::vector<std::string>& spoiled :
       {std::vector<std::string>{"SET"}, {"RPUSH"}, {"SADD"}, {"XADD", "*", "field"}}) {
    for (const char* key :
         {"step:job/7", "step:job/1/1.8", "run_order:job", "fit:job", "step:job/9"}) {
      const std::string name = absl::StrCat("batchplan:v1:", key);
      redis.Command({"DEL", name});
      std::vector<std::string> command = {spoiled[0], name};
      command.insert(command.end(), spoiled.begin() + 1, spoiled.end());
      command.emplace_back("something");
      redis.Command(command);
    }
    EXPECT_TRUE(stores.steps->Progress(kKey, "").value().arrived.empty()) << spoiled[0];
    EXPECT_EQ(stores.steps->PutOutcome(kKey, "", {.bytes = "outcome"}).status().code(),
              absl::StatusCode::kNotFound);
    EXPECT_EQ(UseAll(stores, kKey), absl::OkStatus()) << spoiled[0];
    EXPECT_EQ(UseAll(stores, in_run), absl::OkStatus()) << spoiled[0];
    EXPECT_EQ(stores.fits->Get("job")->state, "state");
    const WholeStep whole = {.terms = "terms", .contents = {"content"}, .outcome = "outcome"};
    EXPECT_TRUE(stores.steps->Restore({.job_id = "job", .step = 9}, whole).value());
  }
}

TEST(RedisStoresTest, DatabasesAreApart) {
  RedisServer redis;
  RedisStores first = Open(redis.url());
  RedisStores second = Open(redis.url() + "/1");
  ASSERT_EQ(UseAll(first, kKey), absl::OkStatus());
  EXPECT_TRUE(second.steps->Progress(kKey, "")->arrived.empty());
  EXPECT_EQ(second.fits->Get("job")->version, 0);
}

TEST(RedisStoresTest, EveryKeyIsForgottenSomeDay) {
  RedisServer redis;
  RedisStoresOptions options = kPatient;
  options.lifetimes = {.time_to_live = absl::Minutes(3), .retention = absl::Minutes(50)};
  options.fit_retention = absl::Hours(2);
  RedisStores stores = Open(redis.url(), options);
  ASSERT_EQ(UseAll(stores, kKey), absl::OkStatus());
  ASSERT_TRUE(stores.steps->PutPart({.job_id = "job", .step = 8}, Part(0, 2)).ok());
  const auto seconds = [&redis](const std::string& key) {
    return std::stoi(redis.Command({"TTL", key}));
  };
  EXPECT_THAT(seconds("batchplan:v1:step:job/7"),
              ::testing::AllOf(::testing::Gt(2900), ::testing::Le(3000)));
  EXPECT_THAT(seconds("batchplan:v1:step:job/8"),
              ::testing::AllOf(::testing::Gt(80), ::testing::Le(180)));
  EXPECT_THAT(seconds("batchplan:v1:fit:job"),
              ::testing::AllOf(::testing::Gt(7100), ::testing::Le(7200)));
  EXPECT_EQ(redis.Command({"DBSIZE"}), "3");
}

// Replicas that act at random and concurrently, and what must hold in any order.
TEST(RedisStoresTest, RacingReplicasSeeOneTermsOneOutcomeAndEveryPart) {
  RedisServer redis;
  RedisStores replicas[] = {Open(redis.url()), Open(redis.url())};
  constexpr uint32_t kWorld = 6;
  for (uint64_t step = 0; step < Cases(50); ++step) {
    const StepKey key = {.job_id = "race", .step = step};
    // Two threads for each worker; one of them may bring other terms or content.
    struct Seen {
      PartReceipt receipt;
      std::string outcome;
    };
    std::vector<Seen> seen(2 * kWorld);
    std::latch start(2 * kWorld);
    {
      std::vector<std::jthread> threads;
      for (uint32_t i = 0; i < 2 * kWorld; ++i) {
        threads.emplace_back([&, i] {
          const uint32_t worker = i / 2;
          StepPart part = Part(worker, kWorld, std::to_string(worker));
          part.waits_at = "here";
          if (i % 2 == 1 && worker % 3 == 0) part.terms = "others";
          if (i % 2 == 1 && worker % 3 == 1) part.content = "other";
          StepStore& mine = *replicas[i % 4 / 2].steps;
          start.arrive_and_wait();
          absl::StatusOr<PartReceipt> receipt = mine.PutPart(key, part);
          ASSERT_TRUE(receipt.ok()) << receipt.status();
          seen[i].receipt = *receipt;
          if (!receipt->complete) return;
          absl::StatusOr<StandingOutcome> outcome =
              mine.PutOutcome(key, receipt->incarnation, {.bytes = std::to_string(i)});
          ASSERT_TRUE(outcome.ok()) << outcome.status();
          seen[i].outcome = outcome->bytes;
        });
      }
    }
    const StepProgress progress = replicas[0].steps->Progress(key, "").value();
    std::set<std::string> outcomes;
    std::set<std::string> terms;
    std::set<uint32_t> accepted;
    for (uint32_t i = 0; i < seen.size(); ++i) {
      const PartReceipt& receipt = seen[i].receipt;
      if (!seen[i].outcome.empty()) outcomes.insert(seen[i].outcome);
      if (receipt.outcome) outcomes.insert(*receipt.outcome);
      if (receipt.verdict == PartReceipt::Verdict::kOtherTerms) terms.insert(receipt.terms);
      if (receipt.verdict == PartReceipt::Verdict::kAccepted) accepted.insert(i / 2);
    }
    EXPECT_EQ(std::set<uint32_t>(progress.arrived.begin(), progress.arrived.end()), accepted);
    EXPECT_LE(terms.size(), 1);
    EXPECT_EQ(progress.complete, accepted.size() == kWorld);
    EXPECT_EQ(outcomes.size(), progress.complete ? 1 : 0);
    EXPECT_EQ(progress.outcome.has_value(), progress.complete);
    EXPECT_EQ(progress.outcome.has_value() && !outcomes.contains(*progress.outcome), false);
  }
}

TEST(RedisStoresTest, RacingReplicasOverARedisThatIsKilledNeverSplitAStep) {
  RedisServer redis({"--appendonly", "yes", "--appendfsync", "always"});
  RedisStores replicas[] = {Open(redis.url()), Open(redis.url())};
  constexpr uint32_t kWorld = 4;
  constexpr uint64_t kSteps = 40;
  // Indexed by step, then worker.
  std::vector<std::vector<std::string>> outcomes(kSteps, std::vector<std::string>(kWorld));
  std::atomic<uint32_t> done = 0;
  std::vector<std::jthread> workers;
  for (uint32_t worker = 0; worker < kWorld; ++worker) {
    workers.emplace_back([&, worker] {
      for (uint64_t step = 0; step < kSteps; ++step) {
        StepStore& mine = *replicas[(step + worker) % 2].steps;
        const StepKey key = {.job_id = "job", .step = step};
        // Like a worker that retries until its step has an outcome.
        while (outcomes[step][worker].empty()) {
          const auto receipt = mine.PutPart(key, Part(worker, kWorld, std::to_string(worker)));
          if (!receipt.ok() || !receipt->complete) continue;
          EXPECT_EQ(receipt->verdict, PartReceipt::Verdict::kAccepted);
          const auto stands =
              mine.PutOutcome(key, receipt->incarnation, {.bytes = std::to_string(worker)});
          if (stands.ok()) outcomes[step][worker] = stands->bytes;
        }
      }
      ++done;
    });
  }
  for (int kills = 0; kills < 5 && done < kWorld; ++kills) {
    redis.Kill();
    redis.Start();
    // Some steps complete in between, however fast the machine is.
    const std::string before = redis.Command({"DBSIZE"});
    while (done < kWorld && redis.Command({"DBSIZE"}) == before) std::this_thread::yield();
  }
  workers.clear();
  for (const std::vector<std::string>& step : outcomes) {
    for (const std::string& outcome : step) EXPECT_EQ(outcome, step[0]);
  }
}

TEST(RedisStoresTest, AListenerThatIsTakenAwayUnderLoadIsNotCalledAgain) {
  RedisServer redis;
  RedisStores replicas[] = {Open(redis.url()), Open(redis.url())};
  std::atomic<bool> stop = false;
  std::atomic<uint64_t> heard = 0;
  std::vector<std::jthread> writers;
  for (int replica = 0; replica < 2; ++replica) {
    writers.emplace_back([&, replica] {
      for (uint64_t step = 0; !stop; ++step) {
        const StepKey key = {.job_id = std::to_string(replica), .step = step};
        EXPECT_TRUE(replicas[replica].steps->PutPart(key, Part(0, 1)).ok());
        EXPECT_TRUE(PutOutcome(*replicas[replica].steps, key, "outcome").ok());
      }
    });
  }
  for (int round = 0; round < 100; ++round) {
    StepStore& store = *replicas[round % 2].steps;
    auto alive = std::make_unique<std::atomic<bool>>(true);
    const uint64_t before = heard;
    store.SetListener([&heard, &store, alive = alive.get()](const StepKey& key, StepEvent) {
      EXPECT_TRUE(*alive);
      // Called without a lock, so that it may use the store.
      EXPECT_TRUE(store.Progress(key, "").ok());
      ++heard;
    });
    while (heard == before) std::this_thread::yield();
    store.SetListener(nullptr);
    // Freed here, so that the sanitizers would see a listener that still runs.
    *alive = false;
  }
  stop = true;
}

TEST(RedisStoresTest, AReplaceWhoseConnectionIsLostCountsOnce) {
  RedisServer redis;
  RedisStores stores = Open(redis.url());
  std::atomic<bool> stop = false;
  std::jthread killer([&] {
    while (!stop) redis.Command({"CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"});
  });
  const auto get = [&stores] {
    absl::StatusOr<StoredFit> fit = stores.fits->Get("job");
    while (!fit.ok()) fit = stores.fits->Get("job");
    return *fit;
  };
  int lost = 0;
  for (int report = 0; report < 300; ++report) {
    const StoredFit before = get();
    const absl::StatusOr<bool> replaced =
        stores.fits->Replace("job", before.version, before.state + "x", "owner");
    const StoredFit after = get();
    // Nobody else uses the store: whoever gets an answer hears that the state was replaced, exactly
    // once. If the connection was lost twice in a call, that is an error, and the state may be
    // replaced or not.
    if (replaced.ok()) {
      EXPECT_TRUE(*replaced);
      EXPECT_EQ(after.state, before.state + "x");
    } else {
      ++lost;
      EXPECT_LE(after.state.size(), before.state.size() + 1);
    }
  }
  EXPECT_LT(lost, 300);
  stop = true;
}

TEST(RedisStoresTest, AStepOfManyLargePartsComesBackWhole) {
  RedisServer redis;
  RedisStores stores = Open(redis.url());
  RandomStream random(1);
  constexpr uint32_t kWorld = 300;
  std::vector<std::string> contents(kWorld);
  for (std::string& content : contents) {
    for (int i = 0; i < 3000; ++i) content += static_cast<char>(random.Between(0, 255));
  }
  contents[7].assign(8 << 20, 'x');
  for (uint32_t worker = 0; worker < kWorld; ++worker) {
    const auto receipt = stores.steps->PutPart(kKey, Part(worker, kWorld, contents[worker]));
    ASSERT_TRUE(receipt.ok()) << receipt.status();
    EXPECT_EQ(receipt->complete, worker + 1 == kWorld);
  }
  EXPECT_EQ(stores.steps->Parts(kKey)->contents, contents);
  EXPECT_EQ(stores.steps->Progress(kKey, "")->arrived.size(), kWorld);
}

}  // namespace
}  // namespace batchplan::testing
