// The heart of batchplan: a manifest and options in, a plan out.
//
//   absl::StatusOr<Plan> plan = MakePlan({.lengths = lengths}, options);
//
// Its stages: align (request/lengths.h), split (split/mini_batches.h), assign (place/assign.h),
// order (pass/order.h) and measure (measure.h). With a selection, plan_selection.h chooses which of
// the waiting sequences are planned.
//
// A pure function: the same arguments give the same plan on every machine, compiler and thread.
// It takes no locks, starts no threads and keeps no state, so any number may run at once. One
// million sequences take half a second to two seconds, or six if they share prefixes, and some
// hundred bytes each. All searches at one effort share an allowance (request/allowance.h), however
// many mini-batches and passes there are. A stop is seen within a tenth of a second up to some
// millions of sequences, also within a packing and while passes are set up.

#ifndef BATCHPLAN_SERVER_PLANNER_MAKE_PLAN_H_
#define BATCHPLAN_SERVER_PLANNER_MAKE_PLAN_H_

#include <cstdint>
#include <stop_token>
#include <string_view>

#include "absl/status/statusor.h"
#include "server/planner/plan.h"
#include "server/planner/request/manifest.h"
#include "server/planner/request/options.h"

namespace batchplan {

// Plans `manifest` as `options` ask.
//
// InvalidArgument if the request can't be met, naming field, value and limit; Cancelled if `stop`
// was requested, never a partial plan.
absl::StatusOr<Plan> MakePlan(const Manifest& manifest, const PlanOptions& options,
                              const std::stop_token& stop = {});

// MakePlan that also sets `ticks` to the work it did, even if the request is refused. A tick is
// about a nanosecond of processor time, but counted (request/allowance.h), so the number is the
// same on every machine.
absl::StatusOr<Plan> MakeCountedPlan(const Manifest& manifest, const PlanOptions& options,
                                     const std::stop_token& stop, uint64_t& ticks);

// The version of the planner, "major.minor.patch": plans of one version are alike.
std::string_view PlannerVersion();

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_MAKE_PLAN_H_
