#include "server/service/store_threads.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <latch>
#include <memory>
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
