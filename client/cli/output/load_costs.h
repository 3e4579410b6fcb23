// What loads (Manifest.loads) cost the micro-batches of a plan.

#ifndef BATCHPLAN_CLIENT_CLI_OUTPUT_LOAD_COSTS_H_
#define BATCHPLAN_CLIENT_CLI_OUTPUT_LOAD_COSTS_H_

#include <vector>

#include "absl/status/status.h"
#include "batchplan/v1/options.pb.h"
#include "batchplan/v1/plan.pb.h"
#include "client/cli/output/microbatches.h"

namespace batchplan::cli {

// Adds what the loads of `manifest` cost the micro-batches of `plan`, as ListPasses gives them.
// Loads that the manifest does not have cost nothing: a worker does not know those of the others.
// InvalidArgument if the plan has another sequence or another number of items.
absl::Status AddLoadCosts(const v1::Manifest& manifest, const v1::CostModel& model,
                          const v1::PassPlan& plan, std::vector<Microbatch>* microbatches);

}  // namespace batchplan::cli

#endif  // BATCHPLAN_CLIENT_CLI_OUTPUT_LOAD_COSTS_H_
