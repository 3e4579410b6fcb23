// All that is fitted for one job: its costs, its memory, and which reports are in.
//
//   absl::Status valid = report.Validate();
//   if (AddReport(report, fit)) ... store the fit ...
//   Costs(fit.costs), SuggestTokens(fit.memory, limit)
//
// A value of up to 9 KiB, whatever has been reported; fit_state.h turns it into bytes.

#ifndef BATCHPLAN_SERVER_FITTING_JOB_FIT_H_
#define BATCHPLAN_SERVER_FITTING_JOB_FIT_H_

#include "server/fitting/cost_fit.h"
#include "server/fitting/memory_fit.h"
#include "server/fitting/seen_reports.h"
#include "server/fitting/step_report.h"

namespace batchplan {

struct JobFit {
  CostFit costs;
  MemoryFit memory;
  SeenReports seen;

  friend bool operator==(const JobFit&, const JobFit&) = default;
};

// Folds a valid report in. False, changing nothing, if it has no micro-batches or is one of the
// latest kSeenReports.
bool AddReport(const StepReport& report, JobFit& fit);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_FITTING_JOB_FIT_H_
