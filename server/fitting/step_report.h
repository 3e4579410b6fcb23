// A worker's report of a step.
//
// Plain values. Validate() takes time linear in the micro-batches.

#ifndef BATCHPLAN_SERVER_FITTING_STEP_REPORT_H_
#define BATCHPLAN_SERVER_FITTING_STEP_REPORT_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"

namespace batchplan {

inline constexpr size_t kMaxReportedMicrobatches = 65536;
inline constexpr uint64_t kMaxReportedTokens = 4294967295;
// A microsecond, and a day: values outside were not measured.
inline constexpr double kMinReportedMilliseconds = 0.001;
inline constexpr double kMaxReportedMilliseconds = 86'400'000;
// 1 PiB.
inline constexpr uint64_t kMaxReportedBytes = uint64_t{1} << 50;
inline constexpr uint32_t kMaxReportedRanks = 65536;
inline constexpr uint32_t kMaxReportedContextParallel = 65536;
inline constexpr size_t kMaxReportedLoads = 8;
inline constexpr size_t kMaxReportedLoadName = 64;
// The limits of a load's value that is not 0.
inline constexpr double kMinReportedLoad = 1e-20;
inline constexpr double kMaxReportedLoad = 1e30;

struct ReportedMicrobatch {
  // Sums over whole sequences, whatever part of them one rank of a context-parallel group has.
  uint64_t tokens = 0;
  uint64_t tokens_squared = 0;
  double milliseconds = 0;
  // 0: not measured.
  uint64_t peak_bytes = 0;
  // 0: not said.
  uint64_t sequences = 0;
  // Where it ran, as in a plan; unset if not said.
  std::optional<uint32_t> rank = std::nullopt;
  // Within its rank and mini-batch.
  std::optional<uint32_t> slot = std::nullopt;
  uint32_t mini_batch = 0;
  // The ranks of the group that computed it.
  uint32_t context_parallel = 1;
  // The part of the model that ran for `milliseconds`: 1 / stages for one stage of a pipeline.
  double model_share = 1;
  // One value for each of StepReport.loads.
  std::vector<double> loads = {};

  // Whether nothing was computed: it only holds a place.
  bool empty() const { return tokens == 0; }
};

struct StepReport {
  uint64_t step = 0;
  // May be empty.
  std::vector<ReportedMicrobatch> microbatches;
  // 0: not known.
  double predicted_milliseconds = 0;
  // Whether ranks meet once a mini-batch, and not after each micro-batch.
  bool accumulated = false;
  // 0: not known.
  uint32_t data_parallel = 0;
  // The names of the loads of each micro-batch.
  std::vector<std::string> loads = {};

  // InvalidArgument, naming the field as the wire does, its value and the limit.
  absl::Status Validate() const;
};

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_FITTING_STEP_REPORT_H_
