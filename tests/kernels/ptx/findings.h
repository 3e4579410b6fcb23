// What the interpreter finds wrong with a kernel, like compute-sanitizer on a device.

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
  // A byte of an output is written twice, although each has one writer.
  kWrittenTwice,
  // Shared memory is read before it is written.
  kUninitialized,
  // ld.global.nc reads what the same launch writes.
  kReadOnly,
  // Not all threads of the block reach a bar.sync.
  kDivergence,
  // An instruction of a warp names absent lanes, or not its own lane.
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

// Sets what happens with a finding; returns the previous handler. The default prints the finding
// and aborts. gtest_findings.cc makes the running test fail.
FindingHandler SetFindingHandler(FindingHandler handler);

void ReportFinding(const Finding& finding);

// Findings of one launch; each kind is reported once for an instruction.
class LaunchFindings {
 public:
  explicit LaunchFindings(const Kernel& kernel) : kernel_(kernel) {}

  // `detail` is optional, and printed on a line of its own.
  void Add(FindingKind kind, const std::string& what, uint32_t block, uint32_t thread, uint32_t at,
           const std::string& detail = "");

 private:
  const Kernel& kernel_;
  std::set<std::pair<FindingKind, uint32_t>> reported_;
};

}  // namespace batchplan::ptx

#endif  // BATCHPLAN_TESTS_KERNELS_PTX_FINDINGS_H_
