// Requests with exactly one mistake, made from requests that can be planned.

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
  // The planner's InvalidArgument must contain this field, or its path within a pass.
  std::string field;
  std::function<void(GeneratedRequest&, RandomStream&)> make;
};

// All known mistakes. Each can be made in any request with valid options.
std::span<const Mistake> Mistakes();

}  // namespace batchplan::testing

#endif  // BATCHPLAN_TESTS_SUPPORT_INVALID_REQUEST_H_
