// Linked into a GoogleTest program: what the interpreter finds fails the test that launched the
// kernel.

#include <gtest/gtest.h>

#include "ptx/findings.h"

namespace batchplan::ptx {
namespace {

[[maybe_unused]] const FindingHandler kBefore =
    SetFindingHandler([](const Finding& finding) { ADD_FAILURE() << finding.message; });

}  // namespace
}  // namespace batchplan::ptx
