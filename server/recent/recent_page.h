// The page of a server's recent plans: jobs with how full their micro-batches were, the last plans
// of one job, and the picture of one of these. For users without Grafana, and for the look at a
// plan that a dashboard can't give.

#ifndef BATCHPLAN_SERVER_RECENT_RECENT_PAGE_H_
#define BATCHPLAN_SERVER_RECENT_RECENT_PAGE_H_

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "server/recent/recent_plans.h"

namespace batchplan {

// The page built into the program, without data.
absl::string_view RecentPageTemplate();

// One self-contained HTML file, as of `now`, with the plans of `job_id`, or of the job planned
// last. NotFound if no plan of that job is kept.
absl::StatusOr<std::string> FormatRecentPage(const RecentPlans& recent,
                                             const std::optional<std::string>& job_id,
                                             absl::Time now);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_RECENT_RECENT_PAGE_H_
