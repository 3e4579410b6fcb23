// ReportStep, apart from gRPC: a request in, a response out.
//
// Any number of calls may run at once. Takes the time of the store's calls, which may block, and
// some 10 microseconds a micro-batch.

#ifndef BATCHPLAN_SERVER_SERVICE_REPORT_STEP_H_
#define BATCHPLAN_SERVER_SERVICE_REPORT_STEP_H_

#include <string>

#include "absl/status/status.h"
#include "batchplan/v1/batch_planner.pb.h"
#include "server/service/job_fits.h"

namespace batchplan {

// Counts the micro-batches of `request`, which `owner` sent, into its job's fit, and writes what is
// fitted now into `response`, which on an error is to be thrown away.
//
// InvalidArgument, naming field, value and limit; JobFits' errors as they are.
absl::Status ReportStep(JobFits* fits, const std::string& owner,
                        const v1::ReportStepRequest& request, v1::ReportStepResponse* response);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_SERVICE_REPORT_STEP_H_
