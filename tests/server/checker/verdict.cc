#include "tests/server/checker/verdict.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace batchplan::testing {

using ::testing::HasSubstr;
using ::testing::StartsWith;

void ExpectAccepted(const HandmadePlan& handmade) {
  const absl::Status status = handmade.Check();
  EXPECT_TRUE(status.ok()) << status;
}

void ExpectViolation(const HandmadePlan& handmade, const std::string& violation) {
  const absl::Status status = handmade.Check();
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(status.message()), StartsWith("plan check: "));
  EXPECT_THAT(std::string(status.message()), HasSubstr(violation));
}

void PrintTo(const Mutation& mutation, std::ostream* out) { *out << mutation.name; }

}  // namespace batchplan::testing
