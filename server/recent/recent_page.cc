#include "server/recent/recent_page.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "proto/batchplan/v1/convert.h"
#include "proto/batchplan/v1/json.h"
#include "server/explain/plan_sentences.h"
#include "server/pages/plan_page.h"

namespace batchplan {
namespace {

// Null unless the step of the plan was reported as a whole.
std::string MeasuredJson(const std::optional<StepRecord>& measured) {
  if (!measured) return "null";
  return absl::StrCat("{\"milliseconds\":", JsonNumber(1e3 * measured->measured_seconds),
                      ",\"predictedMilliseconds\":", JsonNumber(1e3 * measured->predicted_seconds),
                      ",\"waitedShare\":", JsonNumber(measured->waited_ratio), "}");
}

std::string PlanJson(const RecentPlan& plan) {
  return absl::StrCat("{\"time\":", absl::ToUnixMillis(plan.time), ",\"step\":\"", plan.step,
                      "\",\"preset\":", JsonString(plan.preset), ",\"sequences\":", plan.sequences,
                      ",\"planningMilliseconds\":", JsonNumber(1e3 * plan.planning_seconds),
                      ",\"microbatches\":", plan.microbatches,
                      ",\"lowerBoundMicrobatches\":", plan.lower_bound_microbatches,
                      ",\"binUtilization\":", JsonNumber(plan.bin_utilization),
                      ",\"stepEfficiency\":", JsonNumber(plan.step_efficiency),
                      ",\"paddingRemoved\":", JsonNumber(plan.padding_removed),
                      ",\"measured\":", MeasuredJson(plan.measured), "}");
}

// `items` as a JSON array; `write` makes an item.
template <typename Items, typename Write>
std::string ArrayJson(const Items& items, const Write& write) {
  const std::string list = absl::StrJoin(
      items, ",", [&](std::string* out, const auto& item) { absl::StrAppend(out, write(item)); });
  return absl::StrCat("[", list, "]");
}

// The job's latest plan, and the bin utilization of all its plans.
std::string JobJson(const RecentPlans::Job& job) {
  const auto utilization = [](const RecentPlan& plan) { return JsonNumber(plan.bin_utilization); };
  return absl::StrCat("{\"jobId\":", JsonString(job.id), ",\"latest\":", PlanJson(job.plans.back()),
                      ",\"binUtilization\":", ArrayJson(job.plans, utilization), "}");
}

// The data for the picture of the job's whole plan; empty if it can't be drawn.
std::vector<PageData> PictureData(const RecentPlans& recent, const std::string& job_id) {
  const std::optional<WholePlan> whole = recent.Whole(job_id);
  if (!whole) return {};
  const std::shared_ptr<const v1::PlanBatchResponse> response = whole->response();
  if (response == nullptr) return {};
  // The plan says which costs it was made with.
  const absl::StatusOr<ParsedRequest> parsed = ParseRequestWithoutCosts(*whole->request);
  if (!parsed.ok()) return {};
  const absl::StatusOr<Plan> plan = ParseResponse(*response);
  if (!plan.ok()) return {};
  // The picture does not need the sentences.
  const PlanSentences sentences =
      SentencesOfPlan(parsed->manifest, parsed->options, *plan).value_or(PlanSentences());
  return PlanData(*whole->request, parsed->options, *response, {.where = "by this server"},
                  sentences)
      .value_or(std::vector<PageData>());
}

}  // namespace

absl::StatusOr<std::string> FormatRecentPage(const RecentPlans& recent,
                                             const std::optional<std::string>& job_id,
                                             absl::Time now) {
  const std::vector<RecentPlans::Job> jobs = recent.Jobs();
  const auto shown = job_id ? std::find_if(jobs.begin(), jobs.end(),
                                           [&](const auto& job) { return job.id == *job_id; })
                            : jobs.begin();
  if (job_id && shown == jobs.end()) {
    return absl::NotFoundError(
        absl::StrCat("no recent plan of job_id=\"", *job_id, "\" is kept here; see /plans"));
  }
  const bool any = shown != jobs.end();
  std::vector<PageData> data;
  if (any) data = PictureData(recent, shown->id);
  data.push_back(
      {"recent",
       absl::StrCat("{\"now\":", absl::ToUnixMillis(now), ",\"jobs\":", ArrayJson(jobs, JobJson),
                    ",\"shown\":", any ? JsonString(shown->id) : "null",
                    ",\"plans\":", any ? ArrayJson(shown->plans, PlanJson) : "[]", "}")});
  return FillPage(RecentPageTemplate(), data);
}

}  // namespace batchplan
