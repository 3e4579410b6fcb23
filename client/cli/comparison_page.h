// A comparison as a page for the browser: the table, where the time of each candidate's step goes,
// and a picture of each plan.

#ifndef BATCHPLAN_CLIENT_CLI_COMPARISON_PAGE_H_
#define BATCHPLAN_CLIENT_CLI_COMPARISON_PAGE_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "batchplan/client.h"
#include "batchplan/v1/batch_planner.pb.h"
#include "client/cli/comparison.h"

namespace batchplan::cli {

// One HTML file that needs nothing else, about 6 bytes a sequence and candidate. `rows` are what
// Compare gave for the other arguments. It keeps figures and not plans: these are made again, which
// gives the same ones.
absl::StatusOr<std::string> FormatComparisonPage(const Client& client,
                                                 const v1::PlanBatchRequest& request, int pass,
                                                 const std::vector<ComparisonRow>& rows);

}  // namespace batchplan::cli

#endif  // BATCHPLAN_CLIENT_CLI_COMPARISON_PAGE_H_
