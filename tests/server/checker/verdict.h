// What the checker says of a plan written down by hand.

#ifndef BATCHPLAN_TESTS_SERVER_CHECKER_VERDICT_H_
#define BATCHPLAN_TESTS_SERVER_CHECKER_VERDICT_H_

#include <gtest/gtest.h>

#include <functional>
#include <ostream>
#include <string>

#include "tests/server/checker/handmade_plan.h"

namespace batchplan::testing {

void ExpectAccepted(const HandmadePlan& handmade);

// That the checker reports a violation, in words that hold these.
void ExpectViolation(const HandmadePlan& handmade, const std::string& violation);

// One change to a valid plan, and how its report begins.
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
