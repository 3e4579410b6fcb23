#include <gtest/gtest.h>

#include <atomic>
#include <latch>
#include <new>
#include <thread>
#include <vector>

#include "server/store/step_store.h"

namespace batchplan {
namespace {

const StepKey kKey = {.job_id = "job", .step = 7};

TEST(ListenerSlotTest, CallsTheLastListenerAndNobodyWhenThereIsNone) {
  ListenerSlot slot;
  slot.Call(kKey, StepEvent::kChanged);
  std::vector<int> heard;
  slot.Set([&heard](const StepKey& key, StepEvent) {
    EXPECT_EQ(key, kKey);
    heard.push_back(1);
  });
  slot.Call(kKey, StepEvent::kChanged);
  slot.Set([&heard](const StepKey&, StepEvent) { heard.push_back(2); });
  slot.Call(kKey, StepEvent::kChanged);
  slot.Set(nullptr);
  slot.Call(kKey, StepEvent::kChanged);
  EXPECT_EQ(heard, (std::vector<int>{1, 2}));
}

TEST(ListenerSlotTest, SetReturnsOnlyOnceTheLastListenerIsNotRunning) {
  ListenerSlot slot;
  std::latch entered(1);
  std::latch release(1);
  std::atomic<bool> left = false;
  slot.Set([&](const StepKey&, StepEvent) {
    entered.count_down();
    release.wait();
    left = true;
  });
  std::jthread caller([&] { slot.Call(kKey, StepEvent::kChanged); });
  entered.wait();
  std::jthread releaser([&] { release.count_down(); });
  slot.Set(nullptr);
  EXPECT_TRUE(left);
}

TEST(ListenerSlotTest, AListenerThatThrewIsNotWaitedFor) {
  ListenerSlot slot;
  slot.Set([](const StepKey&, StepEvent) { throw std::bad_alloc(); });
  EXPECT_THROW(slot.Call(kKey, StepEvent::kChanged), std::bad_alloc);
  slot.Set(nullptr);
}

TEST(ListenerSlotTest, NoListenerRunsAfterItIsReplacedUnderLoad) {
  ListenerSlot slot;
  std::atomic<bool> stop = false;
  std::atomic<uint64_t> calls = 0;
  std::vector<std::jthread> callers;
  for (int i = 0; i < 3; ++i) {
    callers.emplace_back([&] {
      while (!stop) slot.Call(kKey, StepEvent::kChanged);
    });
  }
  for (int round = 0; round < 200; ++round) {
    auto alive = std::make_unique<std::atomic<bool>>(true);
    slot.Set([&calls, alive = alive.get()](const StepKey&, StepEvent) {
      EXPECT_TRUE(*alive);
      ++calls;
    });
    slot.Set(nullptr);
    *alive = false;
    // Freed here, so that the sanitizers would see a listener that still runs.
  }
  slot.Set([&calls](const StepKey&, StepEvent) { ++calls; });
  const uint64_t before = calls;
  while (calls == before) std::this_thread::yield();
  stop = true;
}

}  // namespace
}  // namespace batchplan
