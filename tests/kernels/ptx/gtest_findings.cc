// Linked into a GoogleTest program: findings of the interpreter make the test fail that launched
// the kernel.

#include <gtest/gtest.h>

#include "ptx/findings.h"

namespace batchplan::ptx {
namespace {

// Random cases may all have the same fault, so a test stops printing after this many.
constexpr int kMostMessages = 20;

void FailTest(const Finding& finding) {
  const testing::TestInfo* const test = testing::UnitTest::GetInstance()->current_test_info();
  if (test != nullptr && testing::Test::HasFailure() &&
      test->result()->total_part_count() >= kMostMessages) {
    return;
  }
  ADD_FAILURE() << finding.message;
}

[[maybe_unused]] const FindingHandler kBefore = SetFindingHandler(FailTest);

}  // namespace
}  // namespace batchplan::ptx
