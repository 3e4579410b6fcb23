// A language model small enough that its gradient can be written down: two tables, no layers.
//
// A token x at position p is h = E[x] + P[p]; the loss of predicting y after it is
//
//   loss = advantage * softplus(-h . E[y]),   softplus(z) = log(1 + e^z).
//
// It sees tokens, positions, labels and advantages, so a mistake in any of them shows.

#ifndef BATCHPLAN_CLIENT_CPP_EXAMPLES_WORKER_MODEL_H_
#define BATCHPLAN_CLIENT_CPP_EXAMPLES_WORKER_MODEL_H_

#include <cstddef>
#include <cstdint>
#include <vector>

namespace batchplan::examples {

inline constexpr int64_t kVocabulary = 97;
inline constexpr size_t kHidden = 8;

struct Model {
  // [kVocabulary, kHidden] and [positions, kHidden].
  std::vector<float> token_table;
  std::vector<float> position_table;
};

Model MakeModel(size_t positions, uint64_t seed);

// Of the batch's loss, in the shapes of the model's tables. Doubles, because ranks add up in an
// order of their own.
struct TableGradients {
  std::vector<double> token_table;
  std::vector<double> position_table;
};

TableGradients ZeroGradients(const Model& model);

// Adds `part` to `sum`, as an all-reduce over ranks does.
void AddTo(TableGradients& sum, const TableGradients& part);

// What a token of a batch, padded or packed, gives the model to learn from.
struct TokenInputs {
  int64_t token = 0;
  int64_t position = 0;
  // kNoLabel: the token predicts nothing, and its loss and gradient are 0.
  int64_t label = 0;
  float advantage = 0;
  // The weight of the loss in the batch's.
  float scale = 0;
};

// Forward and backward of one token: returns its loss, before `scale`; writes d(batch loss)/dh to
// `hidden_gradient`, [kHidden], and adds the tables' gradients.
float TokenStep(const Model& model, const TokenInputs& inputs, float* hidden_gradient,
                TableGradients& gradients);

}  // namespace batchplan::examples

#endif  // BATCHPLAN_CLIENT_CPP_EXAMPLES_WORKER_MODEL_H_
