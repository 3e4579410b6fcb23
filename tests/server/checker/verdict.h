// What the checker says about a handmade plan.

#ifndef BATCHPLAN_TESTS_SERVER_CHECKER_VERDICT_H_
#define BATCHPLAN_TESTS_SERVER_CHECKER_VERDICT_H_

#include <gtest/gtest.h>

#include <functional>
#include <ostream>
#include <string>

#include "tests/server/checker/handmade_plan.h"

namespace batchplan::testing {

void ExpectAccepted(const HandmadePlan& handmade);

// The checker must report a violation whose message contains `violation`.
void ExpectViolation(const HandmadePlan& handmade, const std::string& violation);

// A change of a valid plan, and how the report begins.
struct Mutation {
  std::string name;
  std::function<void(HandmadePlan&)> apply;
  std::string violation;
};

void PrintTo(const Mutation& mutation, std::ostream* out);

inline std::string NameOf(const ::testing::TestParamInfo<Mutation>& info) {
  return info.param.name;
}

}  // namespace batchplan::testing

#endif  // BATCHPLAN_TESTS_SERVER_CHECKER_VERDICT_H_
