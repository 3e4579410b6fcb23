#include "server/checker/stated_metrics.h"

#include <cmath>
#include <numeric>

#include "server/checker/violation.h"

namespace batchplan::checker {

absl::Status CheckExact(const PassUnderCheck& pass, absl::string_view name, uint64_t stated,
                        uint64_t actual) {
  if (stated == actual) return absl::OkStatus();
  return Violation(Field(pass, "metrics."), name, " is ", stated, ", but the plan has ", actual);
}

absl::Status CheckNear(const PassUnderCheck& pass, absl::string_view name, double stated,
                       double actual, double allowance) {
  // In this form NaN fails the check.
  if (std::abs(stated - actual) <= allowance) return absl::OkStatus();
  return Violation(Field(pass, "metrics."), name, " is ", stated, ", but the plan has ", actual);
}

absl::Status CheckBounds(const PassUnderCheck& pass) {
  const PlanMetrics& metrics = pass.plan.metrics;
  if (metrics.lower_bound_microbatches > metrics.microbatches) {
    return Violation(Field(pass, "metrics.lower_bound_microbatches"), " is ",
                     metrics.lower_bound_microbatches, ", above the plan's ", metrics.microbatches,
                     " micro-batches");
  }
  if (metrics.certified_optimal != (metrics.lower_bound_microbatches == metrics.microbatches)) {
    return Violation(Field(pass, "metrics.certified_optimal"), " is ",
                     metrics.certified_optimal ? "true" : "false", ", but the lower bound is ",
                     metrics.lower_bound_microbatches, " of ", metrics.microbatches,
                     " micro-batches");
  }
  if (!(metrics.lower_bound_step_time >= 0 &&
        metrics.lower_bound_step_time <= metrics.predicted_step_time * (1 + 1e-9))) {
    return Violation(Field(pass, "metrics.lower_bound_step_time"), " is ",
                     metrics.lower_bound_step_time, ", outside 0 .. predicted_step_time ",
                     metrics.predicted_step_time);
  }
  return absl::OkStatus();
}

double BinBalance(const std::vector<double>& filled) {
  if (filled.size() < 2) return 1;
  const auto count = static_cast<double>(filled.size());
  const double mean = std::accumulate(filled.begin(), filled.end(), 0.0) / count;
  double squares = 0;
  for (const double one : filled) squares += (one - mean) * (one - mean);
  return 1 - std::sqrt(squares / (count - 1)) / mean;
}

}  // namespace batchplan::checker
