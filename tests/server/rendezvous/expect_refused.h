// What a join that is refused looks like.

#ifndef BATCHPLAN_TESTS_SERVER_RENDEZVOUS_EXPECT_REFUSED_H_
#define BATCHPLAN_TESTS_SERVER_RENDEZVOUS_EXPECT_REFUSED_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/server/rendezvous/world.h"

namespace batchplan::testing {

// It was answered once, with that code and a message like that.
inline void ExpectRefused(const World::Call& call, absl::StatusCode code,
                          const ::testing::Matcher<std::string>& message) {
  EXPECT_EQ(call.answers, 1);
  EXPECT_EQ(call.answer.status().code(), code) << call.answer.status();
  EXPECT_THAT(std::string(call.answer.status().message()), message);
}

}  // namespace batchplan::testing

#endif  // BATCHPLAN_TESTS_SERVER_RENDEZVOUS_EXPECT_REFUSED_H_
