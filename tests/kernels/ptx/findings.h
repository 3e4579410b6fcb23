// What the interpreter finds wrong with a kernel, where compute-sanitizer would on a device.

#ifndef BATCHPLAN_TESTS_KERNELS_PTX_FINDINGS_H_
#define BATCHPLAN_TESTS_KERNELS_PTX_FINDINGS_H_

#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <utility>

#include "ptx/module.h"

namespace batchplan::ptx {

enum class FindingKind {
  kOutOfBounds,
  kMisaligned,
  // Two threads touch a byte, one of them writes, and nothing orders them.
  kGlobalRace,
  kSharedRace,
  // Each byte of an output has one writer.
  kWrittenTwice,
  // Shared memory is read before anything was written there.
  kUninitialized,
  // ld.global.nc of what the same launch writes.
  kReadOnly,
  // bar.sync that not all threads of the block reach.
  kDivergence,
  // A warp's instruction names lanes that are not there, or leaves out its own.
  kWarpMask,
  kDeadlock,
  kDivisionByZero,
};

struct Finding {
  FindingKind kind;
  // Kernel, PTX line, source line, block and thread, address and its allocation.
  std::string message;
};

using FindingHandler = std::function<void(const Finding&)>;

// Replaces what is done with a finding, and returns what was. At first it is printed, and the
// process aborted. gtest_findings.cc lets it fail the running test.
FindingHandler SetFindingHandler(FindingHandler handler);

void ReportFinding(const Finding& finding);

// Of one launch: each kind is reported once an instruction.
class LaunchFindings {
 public:
  explicit LaunchFindings(const Kernel& kernel) : kernel_(kernel) {}

  // `detail`, where there is some, stands in a line of its own.
  void Add(FindingKind kind, const std::string& what, uint32_t block, uint32_t thread, uint32_t at,
           const std::string& detail = "");

 private:
  const Kernel& kernel_;
  std::set<std::pair<FindingKind, uint32_t>> reported_;
};

}  // namespace batchplan::ptx

#endif  // BATCHPLAN_TESTS_KERNELS_PTX_FINDINGS_H_
