// What a pass states of itself, compared with what the checker finds.

#ifndef BATCHPLAN_SERVER_CHECKER_STATED_METRICS_H_
#define BATCHPLAN_SERVER_CHECKER_STATED_METRICS_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "server/checker/pass_under_check.h"

namespace batchplan::checker {

// How far figures may be apart that the planner adds up as scaled integers and the checker as
// doubles.
inline constexpr double kTolerance = 1e-6;

// Internal unless the metric of this name is what the plan has; the second within `allowance`, and
// no NaN.
absl::Status CheckExact(const PassUnderCheck& pass, absl::string_view name, uint64_t stated,
                        uint64_t actual);
absl::Status CheckNear(const PassUnderCheck& pass, absl::string_view name, double stated,
                       double actual, double allowance);

// Internal if a lower bound exceeds what it bounds, or certified_optimal does not say whether that
// of the micro-batches is met.
absl::Status CheckBounds(const PassUnderCheck& pass);

// 1 - s/mean of how full the micro-batches are that are not empty, s the sample standard deviation;
// 1 of fewer than two.
double BinBalance(const std::vector<double>& filled);

}  // namespace batchplan::checker

#endif  // BATCHPLAN_SERVER_CHECKER_STATED_METRICS_H_
