#include "client/python/core/explaining.h"

#include "client/python/core/status_error.h"
#include "proto/batchplan/v1/convert.h"
#include "server/explain/deferral.h"

namespace batchplan::python {

ExplainedPlan ExplainPlan(v1::PlanBatchRequest request, const v1::PlanBatchResponse& response,
                          const ManifestArrays& arrays) {
  // Presets have other defaults if the manifest has ranks.
  request.mutable_manifest()->mutable_ranks()->Add(arrays.ranks.begin(), arrays.ranks.end());
  // The plan says which costs it was made with.
  ParsedRequest parsed = Get(ParseRequestWithoutCosts(request));
  SetArrays(arrays, parsed.manifest);
  const Plan plan = Get(ParseResponse(response));
  return {.passes = Get(Explain(parsed.manifest, parsed.options, plan)),
          .deferral = DeferralOf(parsed.manifest, parsed.options, plan).sentences};
}

}  // namespace batchplan::python
