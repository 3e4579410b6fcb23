#include "client/cli/reports/figures.h"

#include <google/protobuf/util/time_util.h>

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/cli/output/load_costs.h"
#include "client/cli/output/microbatches.h"
#include "proto/batchplan/v1/convert.h"

namespace batchplan::cli {

absl::Status CheckOneBatch(const v1::PlanBatchRequest& request) {
  const uint32_t overtaking = request.selection().max_overtaking();
  if (overtaking == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("selection.max_overtaking is ", overtaking,
                   "; it must be 0, so that all plans are of the same batch"));
}

absl::StatusOr<int> FindPass(const v1::PlanBatchRequest& request, const std::string& name) {
  if (request.passes().empty()) {
    return absl::InvalidArgumentError("passes is empty; at least one is needed");
  }
  if (name.empty()) return 0;
  std::vector<std::string> names;
  for (int i = 0; i < request.passes_size(); ++i) {
    if (request.passes(i).name() == name) return i;
    names.push_back(absl::StrCat("\"", absl::CEscape(request.passes(i).name()), "\""));
  }
  return absl::InvalidArgumentError(absl::StrCat("the request has no pass \"", absl::CEscape(name),
                                                 "\"; it has ", absl::StrJoin(names, ", ")));
}

absl::StatusOr<Figures> PlanFigures(const Client& client, const v1::PlanBatchRequest& request,
                                    int pass) {
  const absl::StatusOr<v1::PlanBatchResponse> response = client.PlanBatch(request);
  if (!response.ok()) return response.status();
  const absl::StatusOr<ParsedRequest> parsed = ParseRequest(request);
  if (!parsed.ok()) return parsed.status();
  const PlanOptions& options = parsed->options;
  if (pass >= response->passes_size() || static_cast<size_t>(pass) >= options.passes.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("the plan has ", response->passes_size(), " passes and no pass ", pass));
  }
  absl::StatusOr<std::vector<std::vector<Microbatch>>> passes = ListPasses(options, *response);
  if (!passes.ok()) return passes.status();

  const v1::PassPlan& plan = response->passes(pass);
  const absl::Status priced =
      AddLoadCosts(request.manifest(), response->cost_model_used(), plan, &(*passes)[pass]);
  if (!priced.ok()) return priced;
  Figures figures;
  figures.metrics = plan.metrics();
  figures.step_times = PredictStepTimes((*passes)[pass], plan, options, options.passes[pass],
                                        response->cost_model_used());
  // Replaces a sum of doubles by the planner's exact sum; they may differ in the last digits.
  (options.synchronization == Synchronization::kLockstep ? figures.step_times.lockstep
                                                         : figures.step_times.accumulated) =
      plan.metrics().predicted_step_time();
  figures.planning_milliseconds =
      static_cast<double>(
          google::protobuf::util::TimeUtil::DurationToNanoseconds(response->planning_time())) /
      1e6;
  return figures;
}

bool IsBetter(const Figures& a, const Figures& b) {
  if (a.metrics.predicted_step_time() != b.metrics.predicted_step_time()) {
    return a.metrics.predicted_step_time() < b.metrics.predicted_step_time();
  }
  return a.metrics.microbatches() < b.metrics.microbatches();
}

}  // namespace batchplan::cli
