#include "server/fitting/job_fit.h"

namespace batchplan {

bool AddReport(const StepReport& report, JobFit& fit) {
  if (report.microbatches.empty() || !IsNew(report, fit.seen)) return false;
  for (const ReportedMicrobatch& microbatch : report.microbatches) {
    AddSample({.tokens = static_cast<double>(microbatch.tokens),
               .tokens_squared = static_cast<double>(microbatch.tokens_squared),
               .milliseconds = microbatch.milliseconds},
              fit.costs);
    if (microbatch.peak_bytes > 0) AddPeak(microbatch.tokens, microbatch.peak_bytes, fit.memory);
  }
  return true;
}

}  // namespace batchplan
