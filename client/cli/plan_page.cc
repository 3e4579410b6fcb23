#include "client/cli/plan_page.h"

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "client/cli/microbatches.h"
#include "server/pages/plan_page.h"

namespace batchplan::cli {
namespace {

// The page's script trusts the arrays that it is given.
absl::Status CheckArrays(const PlanOptions& options, const v1::PlanBatchResponse& response) {
  if (static_cast<size_t>(response.passes_size()) != options.passes.size()) {
    return absl::InvalidArgumentError(absl::StrCat("the plan has ", response.passes_size(),
                                                   " passes, the request ", options.passes.size()));
  }
  for (int i = 0; i < response.passes_size(); ++i) {
    absl::Status listed = ListMicrobatches(response.passes(i), options.passes[i].layout,
                                           options.topology.data_parallel)
                              .status();
    if (!listed.ok()) return listed;
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::string> FormatPlanPage(const v1::PlanBatchRequest& request,
                                           const PlanOptions& options,
                                           const v1::PlanBatchResponse& response,
                                           const PlanOrigin& origin) {
  if (absl::Status checked = CheckArrays(options, response); !checked.ok()) return checked;
  return PlanPage(request, options, response, origin);
}

}  // namespace batchplan::cli
