// Which reports were counted already, so that one that is sent again is not counted twice.

#ifndef BATCHPLAN_SERVER_FITTING_SEEN_REPORTS_H_
#define BATCHPLAN_SERVER_FITTING_SEEN_REPORTS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "server/fitting/step_report.h"

namespace batchplan {

inline constexpr size_t kSeenReports = 256;

// The hashes of the latest reports. A value.
struct SeenReports {
  // In order, the latest last.
  std::vector<uint64_t> hashes;

  friend bool operator==(const SeenReports&, const SeenReports&) = default;
};

// Whether `report` is none of the latest kSeenReports; if so, it is one from now on. Reports are
// the same if step and micro-batches are, to the last bit: two workers' never are, as long as they
// measure.
bool IsNew(const StepReport& report, SeenReports& seen);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_FITTING_SEEN_REPORTS_H_
