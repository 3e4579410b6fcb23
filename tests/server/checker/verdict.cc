#include "tests/server/checker/verdict.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace batchplan::testing {

void ExpectAccepted(const HandmadePlan& handmade) {
  const absl::Status status = handmade.Check();
  EXPECT_TRUE(status.ok()) << status;
}

void ExpectViolation(const HandmadePlan& handmade, const std::string& violation) {
  const absl::Status status = handmade.Check();
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(status.message()), ::testing::StartsWith("plan check: " + violation));
}

void PrintTo(const Mutation& mutation, std::ostream* out) { *out << mutation.name; }

}  // namespace batchplan::testing
