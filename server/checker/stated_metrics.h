// Compares the metrics that a pass states with those that the checker finds.

#ifndef BATCHPLAN_SERVER_CHECKER_STATED_METRICS_H_
#define BATCHPLAN_SERVER_CHECKER_STATED_METRICS_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "server/checker/pass_under_check.h"

namespace batchplan::checker {

// The difference allowed between figures that the planner adds up as scaled integers and the
// checker as doubles.
inline constexpr double kTolerance = 1e-6;

// Internal unless the stated metric is the actual one: exactly, or within `allowance` and no NaN.
absl::Status CheckExact(const PassUnderCheck& pass, absl::string_view name, uint64_t stated,
                        uint64_t actual);
absl::Status CheckNear(const PassUnderCheck& pass, absl::string_view name, double stated,
                       double actual, double allowance);

// Internal if a lower bound exceeds what it bounds, or if certified_optimal does not say whether
// the bound on micro-batches is met.
absl::Status CheckBounds(const PassUnderCheck& pass);

// 1 - s/mean of how full the non-empty micro-batches are, with s the sample standard deviation; 1
// for fewer than two.
double BinBalance(const std::vector<double>& filled);

}  // namespace batchplan::checker

#endif  // BATCHPLAN_SERVER_CHECKER_STATED_METRICS_H_
