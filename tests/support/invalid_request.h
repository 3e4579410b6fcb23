// Requests with exactly one thing wrong, made from requests that can be planned.

#ifndef BATCHPLAN_TESTS_SUPPORT_INVALID_REQUEST_H_
#define BATCHPLAN_TESTS_SUPPORT_INVALID_REQUEST_H_

#include <functional>
#include <span>
#include <string>

#include "tests/support/generated_request.h"
#include "tests/support/generators.h"

namespace batchplan::testing {

// A way to spoil a request.
struct Mistake {
  std::string name;
  // What the planner's InvalidArgument has to contain: the field, or its path within a pass.
  std::string field;
  std::function<void(GeneratedRequest&, RandomStream&)> make;
};

// Every known way. Each can be made in any request whose options are valid.
std::span<const Mistake> Mistakes();

}  // namespace batchplan::testing

#endif  // BATCHPLAN_TESTS_SUPPORT_INVALID_REQUEST_H_
