// Plans in this process that end early where nobody wants them any more: at Ctrl-C, when their time
// is over, when a caller in another thread stops them, and when Python ends.

#ifndef BATCHPLAN_CLIENT_PYTHON_CORE_PLANNING_H_
#define BATCHPLAN_CLIENT_PYTHON_CORE_PLANNING_H_

#include <memory>
#include <optional>
#include <stop_token>
#include <string>

#include "client/python/core/messages.h"
#include "client/python/core/planned.h"
#include "proto/batchplan/v1/convert.h"

namespace batchplan::python {

struct PlanningLimits {
  // Requested by others, or here.
  std::stop_source stop = {};
  // How long planning may take; unset: as long as it takes.
  std::optional<double> seconds = {};
  // Look for signals ten times a second. Of use in Python's main thread alone, which runs their
  // handlers.
  bool watches_signals = false;
};

// What is asked of plans, read once for the many plans of a run.
class AskedPlan {
 public:
  // `request_json` is a PlanBatchRequest without the arrays of its manifest. Presets have
  // other defaults if the manifest has `ranks`. Throws StatusError.
  AskedPlan(const std::string& request_json, bool has_ranks);

  const PlanOptions& options() const { return parsed_.options; }
  Manifest manifest(const ManifestArrays& arrays) const;

 private:
  ParsedRequest parsed_;
};

// Plans in this process, within limits. Releases Python's lock while it plans; the planner sees a
// stop within its longest stage. A plan that may be stopped from here is made in a thread of its
// own, which takes some 50 us.
//
// Throws StatusError: DeadlineExceeded when the time was over, Cancelled when stopped by others,
// and what is wrong with the request; nanobind::python_error with what a signal's handler raised,
// or, where Python ends, with SystemExit.
std::shared_ptr<Planned> PlanHere(const AskedPlan& asked, const ManifestArrays& arrays,
                                  const PlanningLimits& limits);

}  // namespace batchplan::python

#endif  // BATCHPLAN_CLIENT_PYTHON_CORE_PLANNING_H_
