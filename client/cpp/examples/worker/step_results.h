// What a training step computes, in the batch's order, however it was computed.

#ifndef BATCHPLAN_CLIENT_CPP_EXAMPLES_WORKER_STEP_RESULTS_H_
#define BATCHPLAN_CLIENT_CPP_EXAMPLES_WORKER_STEP_RESULTS_H_

#include <vector>

#include "client/cpp/examples/worker/batch.h"
#include "client/cpp/examples/worker/model.h"

namespace batchplan::examples {

struct StepResults {
  // [sequences, width] The loss of predicting a token, where the token stands; 0 for padding.
  std::vector<float> token_losses;
  // [sequences, width, kHidden] The gradient of the batch's loss with respect to h.
  std::vector<float> hidden_gradients;
  // [sequences] The mean loss of a sequence's masked tokens.
  std::vector<float> sequence_means;
  // The mean of sequence_means.
  double loss = 0;
  TableGradients gradients;
};

inline StepResults ZeroResults(const Batch& batch, const Model& model) {
  StepResults results;
  results.token_losses.resize(batch.sequences() * batch.width);
  results.hidden_gradients.resize(batch.sequences() * batch.width * kHidden);
  results.sequence_means.resize(batch.sequences());
  results.gradients = ZeroGradients(model);
  return results;
}

}  // namespace batchplan::examples

#endif  // BATCHPLAN_CLIENT_CPP_EXAMPLES_WORKER_STEP_RESULTS_H_
