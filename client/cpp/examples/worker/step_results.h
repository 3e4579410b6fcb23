// What a training step computes, in the batch's order, however it was computed; and whether two
// computations of one step agree.

#ifndef BATCHPLAN_CLIENT_CPP_EXAMPLES_WORKER_STEP_RESULTS_H_
#define BATCHPLAN_CLIENT_CPP_EXAMPLES_WORKER_STEP_RESULTS_H_

#include <cstddef>
#include <string>
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

// Of the shapes of `batch` and `model`.
StepResults ZeroResults(const Batch& batch, const Model& model);

struct ComparedQuantity {
  std::string name;
  size_t values = 0;
  // The largest difference of two values, relative to the largest value that is expected. Infinite
  // if there are more values on one side or one is not a number.
  double difference = 0;
  // 0: the values are to be equal.
  double allowed = 0;

  // What is not a number does not agree.
  bool agrees() const { return difference <= allowed; }
};

double LargestDifference(const std::vector<double>& actual, const std::vector<double>& expected);
double LargestDifference(const std::vector<float>& actual, const std::vector<float>& expected);

// What the ranks computed against the padded step, quantity by quantity. `padded_means` are those
// of PaddedReduction. Losses and gradients of a token are to be equal: a token's computation is the
// same wherever it stands. So are the means where a rank holds whole sequences, which
// `whole_sequences` says; all other sums are taken in another order, and agree to 1e-6.
std::vector<ComparedQuantity> Compare(const StepResults& ranks, const StepResults& padded,
                                      const std::vector<float>& padded_means, bool whole_sequences);

// A line for each quantity.
std::string TableOf(const std::vector<ComparedQuantity>& quantities);

// "" if all agree, else a sentence that names those that do not.
std::string Disagreement(const std::vector<ComparedQuantity>& quantities);

}  // namespace batchplan::examples

#endif  // BATCHPLAN_CLIENT_CPP_EXAMPLES_WORKER_STEP_RESULTS_H_
