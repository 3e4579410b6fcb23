// A language model small enough that its gradient can be written down: two tables, and one layer of
// attention without parameters.
//
// A token x at position p is h = E[x] + P[p]. It looks at the tokens of its sequence up to itself,
// by causal linear attention (Katharopoulos et al., 2020, without a feature map),
//
//   m_t = h_t + 1 / (H (t + 1)) * sum over s <= t of (h_t . h_s) h_s
//
// and the loss of predicting y after it is
//
//   loss = advantage * softplus(-m . E[y]),   softplus(z) = log(1 + e^z).
//
// It sees tokens, positions, labels, advantages, and through attention all tokens of the sequence
// before, wherever their shards are: a mistake in any of them shows.

#ifndef BATCHPLAN_CLIENT_CPP_EXAMPLES_WORKER_MODEL_H_
#define BATCHPLAN_CLIENT_CPP_EXAMPLES_WORKER_MODEL_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"

namespace batchplan::examples {

inline constexpr int64_t kVocabulary = 97;
inline constexpr size_t kHidden = 8;

// Of one token.
using Hidden = std::array<double, kHidden>;

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

// h of a token.
Hidden Embed(const Model& model, const TokenInputs& inputs);

// m of token `t` of the sequence that has h `hidden`. What is taken together is taken in the
// sequence's order, so that it is the same wherever it is computed.
Hidden Attend(absl::Span<const Hidden> hidden, size_t t);

// Returns the loss of a token with m `mixed`, before `scale`; writes d(batch loss)/dm to
// `mixed_gradient`, and adds the tables' gradients but for those through m.
float TokenLoss(const Model& model, const TokenInputs& inputs, const Hidden& mixed,
                Hidden& mixed_gradient, TableGradients& gradients);

// d(batch loss)/dh of token `t`, from h and d(batch loss)/dm of the whole sequence.
Hidden AttendBackward(absl::Span<const Hidden> hidden, absl::Span<const Hidden> mixed_gradients,
                      size_t t);

// Adds the tables' gradients of a token whose h has this gradient.
void EmbedBackward(const TokenInputs& inputs, const Hidden& hidden_gradient,
                   TableGradients& gradients);

}  // namespace batchplan::examples

#endif  // BATCHPLAN_CLIENT_CPP_EXAMPLES_WORKER_MODEL_H_
