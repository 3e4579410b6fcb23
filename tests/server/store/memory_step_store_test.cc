#include "server/store/memory_step_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <latch>
#include <memory>
#include <new>
#include <string>
#include <thread>

#include "tests/server/store/manual_clock.h"
#include "tests/server/store/step_store_contract.h"
#include "tests/server/store/step_store_model.h"
#include "tests/support/scarce_memory.h"

namespace batchplan::testing {
namespace {

using ::testing::HasSubstr;

class MemoryStores : public StepStores {
 public:
  explicit MemoryStores(const StepStoreOptions& lifetimes)
      : store_({.lifetimes = lifetimes}, clock_.clock()) {}

  StepStore& store(int) override { return store_; }
  void Advance(absl::Duration by) override { clock_.Advance(by); }
  // The listeners are called within the calls.
  void AwaitNotifications() override {}

 private:
  ManualClock clock_;
  MemoryStepStore store_;
};

std::unique_ptr<StepStores> MakeMemoryStores(const StepStoreOptions& lifetimes) {
  return std::make_unique<MemoryStores>(lifetimes);
}

INSTANTIATE_TEST_SUITE_P(Memory, StepStoreContract,
                         ::testing::Values(StepStoresFactory{"MemoryStepStore", MakeMemoryStores}));

StepPart Part(uint32_t worker, uint32_t world_size, size_t bytes) {
  return {.worker = worker,
          .world_size = world_size,
          .terms = "terms",
          .content = std::string(bytes, 'x'),
          .waits_at = "here"};
}

StepKey Step(uint64_t step) { return {.job_id = "job", .step = step}; }

absl::StatusOr<StandingOutcome> PutOutcome(StepStore& store, const StepKey& key,
                                           const std::string& outcome) {
  return store.PutOutcome(key, store.Progress(key, "")->incarnation, {.bytes = outcome});
}

TEST(MemoryStepStoreTest, CountsWhatItHoldsAndHoldsNothingOnceTimeIsOver) {
  ManualClock clock;
  MemoryStepStore store(
      {.lifetimes = {.time_to_live = kTimeToLive, .retention = kRetention}, .max_bytes = 1 << 20},
      clock.clock());
  EXPECT_EQ(store.counts().bytes, 0);
  ASSERT_TRUE(store.PutPart(Step(1), Part(0, 2, 1000)).ok());
  ASSERT_TRUE(store.PutPart(Step(1), Part(1, 2, 500)).ok());
  ASSERT_TRUE(store.PutPart(Step(1), Part(1, 2, 500)).ok());
  ASSERT_TRUE(store.PutPart(Step(2), Part(1, 2, 0)).ok());
  MemoryStepStore::Counts counts = store.counts();
  EXPECT_EQ(counts.steps, 2);
  EXPECT_EQ(counts.parts, 3);
  EXPECT_GE(counts.bytes, 1500);
  EXPECT_LT(counts.bytes, 4000);
  ASSERT_TRUE(PutOutcome(store, Step(1), std::string(100, 'o')).ok());
  EXPECT_EQ(store.counts().bytes, counts.bytes + 100);

  clock.Advance(2 * kPause);
  EXPECT_EQ(store.counts().steps, 1);
  clock.Advance(2 * kPause);
  counts = store.counts();
  EXPECT_EQ(counts.steps, 0);
  EXPECT_EQ(counts.parts, 0);
  EXPECT_EQ(counts.bytes, 0);
}

TEST(MemoryStepStoreTest, WhatDoesNotFitIsRefusedByTheNameOfTheFlagAndLeavesNothingBehind) {
  ManualClock clock;
  MemoryStepStore store({.lifetimes = {.time_to_live = kTimeToLive}, .max_bytes = 10'000},
                        clock.clock());
  ASSERT_TRUE(store.PutPart(Step(1), Part(0, 2, 8000)).ok());
  const MemoryStepStore::Counts before = store.counts();
  for (const StepKey& key : {Step(1), Step(2)}) {
    const absl::Status refused = store.PutPart(key, Part(1, 2, 2000)).status();
    EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
    EXPECT_THAT(std::string(refused.message()), HasSubstr("--rendezvous_memory_bytes=10000"));
    EXPECT_THAT(std::string(refused.message()), HasSubstr("worker 1"));
  }
  EXPECT_EQ(store.counts().steps, before.steps);
  EXPECT_EQ(store.counts().bytes, before.bytes);
  // A part that is stored already needs no more room, and a smaller one may fit.
  EXPECT_TRUE(store.PutPart(Step(1), Part(0, 2, 8000)).ok());
  EXPECT_TRUE(store.PutPart(Step(1), Part(1, 2, 100)).ok());
  EXPECT_EQ(PutOutcome(store, Step(1), std::string(2000, 'o')).status().code(),
            absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(PutOutcome(store, Step(1), "o").ok());
}

TEST(MemoryStepStoreTest, ExpiredStepsMakeRoom) {
  ManualClock clock;
  MemoryStepStore store({.lifetimes = {.time_to_live = kTimeToLive}, .max_bytes = 10'000},
                        clock.clock());
  ASSERT_TRUE(store.PutPart(Step(1), Part(0, 2, 8000)).ok());
  ASSERT_FALSE(store.PutPart(Step(2), Part(0, 2, 8000)).ok());
  clock.Advance(kTimeToLive);
  EXPECT_TRUE(store.PutPart(Step(2), Part(0, 2, 8000)).ok());
}

// A part of a step with one waiting worker, which counts for `owner`.
StepPart PartOf(const std::string& owner, size_t bytes) {
  StepPart part = Part(0, 1, bytes);
  part.owner = owner;
  return part;
}

TEST(MemoryStepStoreTest, StepsThatNobodyWaitsForMakeRoomFirstTheOneFirstThatWasLeftFirst) {
  ManualClock clock;
  MemoryStepStore store({.lifetimes = {.time_to_live = kTimeToLive}, .max_bytes = 10'000},
                        clock.clock());
  for (const uint64_t step : {1, 2, 3}) {
    ASSERT_TRUE(store.PutPart(Step(step), Part(0, 2, 2000)).ok());
  }
  ASSERT_TRUE(store.Leave(Step(2), "here").ok());
  EXPECT_TRUE(store.PutPart(Step(4), Part(0, 2, 2000)).ok());
  EXPECT_TRUE(store.Progress(Step(2), "")->arrived.empty());
  EXPECT_FALSE(store.PutPart(Step(5), Part(0, 2, 2000)).ok()) << "somebody waits for all";
  clock.Advance(absl::Seconds(3));
  ASSERT_TRUE(store.Progress(Step(1), "here").ok());
  clock.Advance(absl::Seconds(3));
  EXPECT_TRUE(store.PutPart(Step(5), Part(0, 2, 2000)).ok());
  EXPECT_TRUE(store.Progress(Step(3), "")->arrived.empty());
  // Only as many steps as necessary give way, and never the part's own step.
  EXPECT_TRUE(store.PutPart(Step(4), Part(1, 2, 1500)).ok());
  EXPECT_TRUE(store.Progress(Step(4), "")->complete);
  EXPECT_FALSE(store.Progress(Step(1), "")->arrived.empty());
}

TEST(MemoryStepStoreTest, WhoHoldsTheMostGivesWayToWhoWouldHoldLess) {
  ManualClock clock;
  MemoryStepStore store({.lifetimes = {.time_to_live = kTimeToLive}, .max_bytes = 100'000},
                        clock.clock());
  for (uint64_t step = 0; step < 20; ++step) {
    const absl::StatusOr<PartReceipt> receipt = store.PutPart(Step(step), PartOf("flooder", 8000));
    EXPECT_EQ(receipt.ok(), step < 11) << receipt.status();
  }
  EXPECT_TRUE(PutOutcome(store, Step(0), "o").ok());
  // Another owner's part displaces the oldest step that nobody waits for.
  const StepKey victim = {.job_id = "victim", .step = 1};
  EXPECT_TRUE(store.PutPart(victim, PartOf("victim", 8000)).ok());
  EXPECT_TRUE(store.Progress(Step(1), "")->arrived.empty());
  EXPECT_FALSE(store.Progress(Step(0), "")->arrived.empty());
  EXPECT_FALSE(store.Progress(Step(2), "")->arrived.empty());
  // Until both hold equally much; then each is refused because of its own steps.
  uint64_t steps = 1;
  while (store.PutPart({.job_id = "victim", .step = steps + 1}, PartOf("victim", 8000)).ok()) {
    ++steps;
  }
  EXPECT_GE(steps, 5);
  EXPECT_LE(steps, 6);
  EXPECT_FALSE(store.PutPart(Step(30), PartOf("flooder", 8000)).ok());
  EXPECT_FALSE(store.Progress(victim, "")->arrived.empty());
  // A third owner can still store a part.
  EXPECT_TRUE(store.PutPart({.job_id = "third", .step = 1}, PartOf("third", 20'000)).ok());
  // A part that can never fit displaces nothing.
  const uint64_t held = store.counts().steps;
  EXPECT_FALSE(store.PutPart({.job_id = "fourth", .step = 1}, PartOf("fourth", 200'000)).ok());
  EXPECT_EQ(store.counts().steps, held);
}

TEST(MemoryStepStoreTest, SetListenerReturnsOnlyOnceTheLastOneIsNotRunning) {
  MemoryStepStore store({}, std::chrono::steady_clock::now);
  std::latch entered(1);
  std::latch release(1);
  std::atomic<bool> left = false;
  store.SetListener([&](const StepKey&, StepEvent) {
    entered.count_down();
    release.wait();
    left = true;
  });
  std::jthread put([&] { EXPECT_TRUE(store.PutPart(Step(1), Part(0, 1, 1)).ok()); });
  entered.wait();
  std::jthread releaser([&] { release.count_down(); });
  store.SetListener(nullptr);
  EXPECT_TRUE(left);
}

// Whichever allocation of a call fails, only what is held is counted, and the call can be repeated.
TEST(MemoryStepStoreTest, MemoryThatRunsOutLeavesNothingBehind) {
  uint64_t failures = 0;
  bool failed = true;
  for (uint64_t after = 0; failed; ++after) {
    failed = false;
    ManualClock clock;
    MemoryStepStore store(
        {.lifetimes = {.time_to_live = kTimeToLive, .retention = kRetention}, .max_bytes = 1 << 20},
        clock.clock());
    const StepKey key = {.job_id = "a job whose name is no short string", .step = 1};
    const auto within_memory = [&](const auto& call) {
      try {
        const ScarceMemory scarce({.after = after});
        return call();
      } catch (const std::bad_alloc&) {
        failed = true;
        ++failures;
      }
      return call();
    };
    EXPECT_FALSE(within_memory([&] { return store.PutPart(key, Part(0, 2, 1000)); })->complete);
    EXPECT_TRUE(within_memory([&] { return store.PutPart(key, Part(1, 2, 500)); })->complete);
    const std::string outcome(200, 'o');
    const std::string incarnation = store.Progress(key, "")->incarnation;
    EXPECT_EQ(within_memory([&] { return store.PutOutcome(key, incarnation, {outcome}); })->bytes,
              outcome);
    EXPECT_EQ(store.counts().steps, 1);
    EXPECT_EQ(store.counts().parts, 2);
    EXPECT_GE(store.counts().bytes, 1700);
    EXPECT_LE(store.counts().bytes, 3000);
    clock.Advance(kTimeToLive + kRetention);
    EXPECT_EQ(store.counts().steps, 0);
    EXPECT_EQ(store.counts().parts, 0);
    EXPECT_EQ(store.counts().bytes, 0);
  }
  EXPECT_GE(failures, 10);
}

}  // namespace
}  // namespace batchplan::testing
