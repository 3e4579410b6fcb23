#include "server/service/admission/store_threads.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <latch>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace batchplan {
namespace {

using ::testing::ElementsAre;

TEST(StoreThreadsTest, WhatIsRemovedIsNotRunAndTheOthersKeepTheirOrder) {
  std::vector<int> ran;
  std::latch begun(1);
  std::latch release(1);
  StoreThreads threads(1, 10);
  const uint64_t running = threads
                               .TrySubmit([&] {
                                 begun.count_down();
                                 release.wait();
                               })
                               .value();
  begun.wait();
  EXPECT_FALSE(threads.Remove(running));
  std::vector<uint64_t> tickets;
  for (int i = 0; i < 4; ++i) {
    tickets.push_back(threads.TrySubmit([&ran, i] { ran.push_back(i); }).value());
  }
  EXPECT_TRUE(threads.Remove(tickets[1]));
  EXPECT_FALSE(threads.Remove(tickets[1]));
  release.count_down();
  threads.Stop();
  EXPECT_THAT(ran, ElementsAre(0, 2, 3));
  EXPECT_FALSE(threads.Remove(tickets[3]));
}

TEST(StoreThreadsTest, ThoseOfOneTurnHoldOneThread) {
  std::mutex mutex;
  std::vector<int> ran;
  const auto note = [&](int name) {
    std::lock_guard lock(mutex);
    ran.push_back(name);
  };
  std::latch begun(1);
  std::latch release(1);
  StoreThreads threads(2, 10);
  threads
      .TrySubmit(
          [&] {
            begun.count_down();
            release.wait();
            note(0);
          },
          "busy")
      .value();
  begun.wait();
  std::vector<uint64_t> tickets;
  for (int i = 1; i < 5; ++i) {
    tickets.push_back(threads.TrySubmit([&note, i] { note(i); }, "busy").value());
  }
  // Calls of another turn, and of none, run while the first one is running.
  for (const char* turn : {"other", ""}) {
    std::latch done(1);
    threads.TrySubmit([&done] { done.count_down(); }, turn).value();
    done.wait();
  }
  EXPECT_TRUE(threads.Remove(tickets[1]));
  EXPECT_FALSE(threads.Remove(tickets[1]));
  release.count_down();
  threads.Stop();
  EXPECT_THAT(ran, ElementsAre(0, 1, 3, 4));
}

TEST(StoreThreadsTest, WhoIsRemovedPassesTheTurnOn) {
  std::latch begun(1);
  std::latch release(1);
  std::vector<int> ran;
  StoreThreads threads(1, 3);
  threads.Submit([&] {
    begun.count_down();
    release.wait();
  });
  begun.wait();
  const uint64_t first = threads.TrySubmit([&] { ran.push_back(1); }, "turn").value();
  const uint64_t second = threads.TrySubmit([&] { ran.push_back(2); }, "turn").value();
  ASSERT_TRUE(threads.TrySubmit([&] { ran.push_back(3); }, "turn").ok());
  EXPECT_FALSE(threads.TrySubmit([] {}, "turn").ok());
  EXPECT_TRUE(threads.Remove(first));
  EXPECT_TRUE(threads.Remove(second));
  release.count_down();
  threads.Stop();
  EXPECT_THAT(ran, ElementsAre(3));
}

TEST(StoreThreadsTest, WhatIsRemovedMakesRoomAndIsDestroyed) {
  std::latch release(1);
  std::latch begun(1);
  StoreThreads threads(1, 1);
  threads.Submit([&] {
    begun.count_down();
    release.wait();
  });
  begun.wait();
  auto held = std::make_shared<int>(0);
  const std::weak_ptr<int> gone = held;
  const uint64_t ticket = threads.TrySubmit([held = std::move(held)] {}).value();
  EXPECT_EQ(threads.TrySubmit([] {}).status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(threads.Remove(ticket));
  EXPECT_TRUE(gone.expired());
  EXPECT_TRUE(threads.TrySubmit([] {}).ok());
  release.count_down();
}

}  // namespace
}  // namespace batchplan
