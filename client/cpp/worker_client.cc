#include "batchplan/worker_client.h"

#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "batchplan/pass_requirements.h"

namespace batchplan {
namespace {

// Checks that the answer has as many passes as the request, and accounts for every sequence.
absl::Status CheckResponse(const v1::PlanBatchRequest& request,
                           const v1::PlanBatchResponse& response, int pass) {
  if (response.passes_size() != request.passes_size()) {
    return absl::InternalError(absl::StrCat("the planner's answer has ", response.passes_size(),
                                            " passes, but ", request.passes_size(),
                                            " were asked for"));
  }
  int left_out = 0;
  for (const v1::ExcludedSequence& excluded : response.excluded()) {
    if (excluded.reason() == v1::EXCLUSION_REASON_DROPPED ||
        excluded.reason() == v1::EXCLUSION_REASON_EXPIRED) {
      ++left_out;
    }
  }
  const int planned = response.passes(pass).sequence_index_size();
  if (planned + left_out + response.deferred_size() != request.manifest().lengths_size()) {
    return absl::InternalError(
        absl::StrCat("the planner's answer has ", planned, " sequences in passes[", pass, "], ",
                     left_out, " dropped or expired and ", response.deferred_size(),
                     " deferred, but the manifest has ", request.manifest().lengths_size()));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<WorkerClient> WorkerClient::Create(Client client, WorkerOptions options) {
  if (absl::Status status = options.Validate(); !status.ok()) return status;
  return WorkerClient(std::move(client), std::move(options));
}

absl::StatusOr<WorkerPlan> WorkerClient::UsePlan(const v1::PlanBatchRequest& request,
                                                 const v1::PlanBatchResponse& response,
                                                 int pass) const {
  const absl::StatusOr<PassRequirements> requirements = RequirementsOf(request, pass);
  if (!requirements.ok()) return requirements.status();
  if (absl::Status status = CheckResponse(request, response, pass); !status.ok()) return status;
  return WorkerPlan::Create(response.passes(pass), *requirements, options_, response.fingerprint());
}

absl::StatusOr<WorkerPlan> WorkerClient::FetchPlan(const v1::PlanBatchRequest& request, int pass,
                                                   const CallOptions& call) const {
  // Checked before the request is sent: no plan is made for a pass that does not exist.
  if (absl::Status status = RequirementsOf(request, pass).status(); !status.ok()) return status;
  const absl::StatusOr<v1::PlanBatchResponse> response = client_.PlanBatch(request, call);
  if (!response.ok()) return response.status();
  return UsePlan(request, *response, pass);
}

absl::StatusOr<std::vector<WorkerPlan>> WorkerClient::FetchPlans(
    const v1::PlanBatchRequest& request, const CallOptions& call) const {
  const absl::StatusOr<v1::PlanBatchResponse> response = client_.PlanBatch(request, call);
  if (!response.ok()) return response.status();
  std::vector<WorkerPlan> plans;
  for (int pass = 0; pass < request.passes_size(); ++pass) {
    absl::StatusOr<WorkerPlan> plan = UsePlan(request, *response, pass);
    if (!plan.ok()) return plan.status();
    plans.push_back(*std::move(plan));
  }
  return plans;
}

}  // namespace batchplan
