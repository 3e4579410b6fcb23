// The training step without a plan: loops over the padded batch, in one thread.

#ifndef BATCHPLAN_CLIENT_CPP_EXAMPLES_WORKER_PADDED_STEP_H_
#define BATCHPLAN_CLIENT_CPP_EXAMPLES_WORKER_PADDED_STEP_H_

#include <vector>

#include "absl/status/statusor.h"
#include "client/cpp/examples/worker/batch.h"
#include "client/cpp/examples/worker/model.h"
#include "client/cpp/examples/worker/step_results.h"

namespace batchplan::examples {

// No code of batchplan's runs in it.
StepResults PaddedStep(const Batch& batch, const Model& model);

// The mean loss of each sequence by batchplan_reduce over the whole padded batch, from
// `token_losses` as PaddedStep gives them: sums taken in the order that packed rows take them in,
// so that their means have the same bits.
absl::StatusOr<std::vector<float>> PaddedReduction(const Batch& batch,
                                                   const std::vector<float>& token_losses);

}  // namespace batchplan::examples

#endif  // BATCHPLAN_CLIENT_CPP_EXAMPLES_WORKER_PADDED_STEP_H_
