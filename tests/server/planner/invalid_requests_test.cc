// Requests with one thing wrong: refused, and the error names the field.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <ostream>
#include <string>

#include "server/planner/make_plan.h"
#include "tests/support/generated_request.h"
#include "tests/support/generators.h"
#include "tests/support/invalid_request.h"

namespace batchplan {
namespace testing {

void PrintTo(const Mistake& mistake, std::ostream* out) { *out << mistake.name; }

}  // namespace testing

namespace {

class InvalidRequestsTest : public ::testing::TestWithParam<testing::Mistake> {};

TEST_P(InvalidRequestsTest, AreRefusedByTheNameOfTheField) {
  uint64_t tried = 0;
  for (const uint64_t seed : testing::Seeds(50)) {
    testing::GeneratedRequest request = testing::GenerateRequest(seed);
    if (!MakePlan(request.manifest(), request.options).ok()) continue;
    ++tried;
    testing::RandomStream random(seed);
    GetParam().make(request, random);
    const absl::Status status = MakePlan(request.manifest(), request.options).status();
    ASSERT_EQ(status.code(), absl::StatusCode::kInvalidArgument)
        << status << "\nseed " << seed << "\n"
        << request.Describe();
    ASSERT_THAT(std::string(status.message()), ::testing::HasSubstr(GetParam().field))
        << "seed " << seed << "\n"
        << request.Describe();
  }
  EXPECT_GT(tried, 0u);
}

INSTANTIATE_TEST_SUITE_P(Mistakes, InvalidRequestsTest, ::testing::ValuesIn(testing::Mistakes()),
                         [](const ::testing::TestParamInfo<testing::Mistake>& info) {
                           return info.param.name;
                         });

}  // namespace
}  // namespace batchplan
