#include "client/cli/comparison_page.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/cli/comparison_report.h"
#include "client/cli/microbatches.h"
#include "client/cli/pages/pages.h"
#include "client/cli/report.h"
#include "proto/batchplan/v1/convert.h"
#include "proto/batchplan/v1/json.h"
#include "server/pages/plan_page.h"

namespace batchplan::cli {
namespace {

// What the page of one plan shows of a request and its response, with a pass for each candidate
// that has a plan, in the order of the rows.
struct ShownPlans {
  v1::PlanBatchRequest request;
  v1::PlanBatchResponse response;
};

absl::Status AddPlan(const Client& client, const v1::PlanBatchRequest& request, int pass,
                     ShownPlans* shown) {
  absl::StatusOr<v1::PlanBatchResponse> response = client.PlanBatch(request);
  if (!response.ok()) return response.status();
  const absl::StatusOr<ParsedRequest> parsed = ParseRequest(request);
  if (!parsed.ok()) return parsed.status();
  const PlanOptions& options = parsed->options;
  v1::PassPlan* plan = response->mutable_passes(pass);
  // The page's script trusts the arrays that it is given.
  absl::Status listed =
      ListMicrobatches(*plan, options.passes[pass].layout, options.topology.data_parallel).status();
  if (!listed.ok()) return listed;

  v1::PlanBatchRequest of_candidate = ShownRequest(request, options);
  v1::Pass shown_pass = std::move(*of_candidate.mutable_passes(pass));
  if (shown->request.passes().empty()) {
    of_candidate.clear_passes();
    of_candidate.clear_preset();
    shown->request = std::move(of_candidate);
    *shown->response.mutable_cost_model_used() = response->cost_model_used();
    shown->response.set_planner_version(response->planner_version());
  }
  *shown->request.add_passes() = std::move(shown_pass);
  // Which sequence is where, is for the page of one plan.
  plan->clear_sequence_index();
  *shown->response.add_passes() = std::move(*plan);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::string> FormatComparisonPage(const Client& client,
                                                 const v1::PlanBatchRequest& request, int pass,
                                                 const std::vector<ComparisonRow>& rows) {
  ShownPlans shown;
  for (const ComparisonRow& row : rows) {
    if (!row.figures.ok()) continue;
    absl::Status added = AddPlan(client, WithCandidate(row.candidate, request), pass, &shown);
    if (!added.ok()) return added;
  }
  absl::StatusOr<std::string> rows_json = FormatReportJson(ReportComparison(request, pass, rows));
  if (!rows_json.ok()) return rows_json.status();
  absl::StatusOr<std::string> request_json = ToCompleteJson(shown.request);
  if (!request_json.ok()) return request_json.status();
  absl::StatusOr<std::string> response_json = ToCompleteJson(shown.response);
  if (!response_json.ok()) return response_json.status();
  return FillPage(ComparisonPage(), {{"rows", *std::move(rows_json)},
                                     {"request", *std::move(request_json)},
                                     {"response", *std::move(response_json)}});
}

}  // namespace batchplan::cli
