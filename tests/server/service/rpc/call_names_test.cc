#include "server/service/rpc/call_names.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>
#include <thread>
#include <vector>

namespace batchplan {
namespace {

const std::string kValid = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

TEST(CallNamesTest, EveryNewRequestIdIsNew) {
  std::vector<std::vector<std::string>> ids(4);
  {
    std::vector<std::jthread> threads;
    for (std::vector<std::string>& mine : ids) {
      threads.emplace_back([&mine] {
        for (int i = 0; i < 1000; ++i) mine.push_back(NewRequestId());
      });
    }
  }
  std::set<std::string> all;
  for (const std::vector<std::string>& some : ids) all.insert(some.begin(), some.end());
  EXPECT_EQ(all.size(), 4000U);
}

TEST(CallNamesTest, ATraceparentIsWhatW3cSays) {
  EXPECT_TRUE(IsTraceparent(kValid));
  EXPECT_TRUE(IsTraceparent("cc" + kValid.substr(2)));
  EXPECT_TRUE(IsTraceparent("cc" + kValid.substr(2) + "-what-will-be"));
  EXPECT_FALSE(IsTraceparent(""));
  EXPECT_FALSE(IsTraceparent("ff" + kValid.substr(2)));
  EXPECT_FALSE(IsTraceparent(kValid + "-more"));
  EXPECT_FALSE(IsTraceparent("cc" + kValid.substr(2) + ".more"));
  EXPECT_FALSE(IsTraceparent("00-00000000000000000000000000000000-00f067aa0ba902b7-01"));
  EXPECT_FALSE(IsTraceparent("00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01"));
  EXPECT_FALSE(IsTraceparent("00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01"));
}

TEST(CallNamesTest, AnyOtherCharacterSpoilsATraceparent) {
  for (size_t i = 0; i < kValid.size(); ++i) {
    std::string spoiled = kValid;
    spoiled[i] = 'g';
    EXPECT_FALSE(IsTraceparent(spoiled)) << spoiled;
    EXPECT_FALSE(IsTraceparent(kValid.substr(0, i)));
  }
}

TEST(CallNamesTest, OfTwoTraceparentsNeitherCounts) {
  std::multimap<grpc::string_ref, grpc::string_ref> metadata;
  EXPECT_EQ(TraceparentOf(metadata), "");
  metadata.emplace("traceparent", kValid);
  EXPECT_EQ(TraceparentOf(metadata), kValid);
  metadata.emplace("traceparent", kValid);
  EXPECT_EQ(TraceparentOf(metadata), "");
}

TEST(CallNamesTest, ATraceparentThatIsNoneIsLeftOut) {
  std::multimap<grpc::string_ref, grpc::string_ref> metadata;
  metadata.emplace("traceparent", "forged code=OK");
  EXPECT_EQ(TraceparentOf(metadata), "");
}

}  // namespace
}  // namespace batchplan
