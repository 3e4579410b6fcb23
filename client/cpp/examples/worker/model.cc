#include "client/cpp/examples/worker/model.h"

#include <cmath>
#include <random>

#include "client/cpp/examples/worker/batch.h"

namespace batchplan::examples {
namespace {

std::vector<float> RandomTable(size_t rows, std::mt19937_64& random) {
  std::vector<float> table(rows * kHidden);
  for (float& entry : table) entry = static_cast<float>(random() >> 40) * 0x1p-23F - 1;
  return table;
}

void AddTo(std::vector<double>& sum, const std::vector<double>& part) {
  for (size_t i = 0; i < sum.size(); ++i) sum[i] += part[i];
}

double Dot(const Hidden& a, const Hidden& b) {
  double sum = 0;
  for (size_t i = 0; i < kHidden; ++i) sum += a[i] * b[i];
  return sum;
}

void AddScaled(Hidden& sum, double scale, const Hidden& part) {
  for (size_t i = 0; i < kHidden; ++i) sum[i] += scale * part[i];
}

// The scale of the attention of token `t`.
double AttentionScale(size_t t) { return 1 / static_cast<double>(kHidden * (t + 1)); }

}  // namespace

Model MakeModel(size_t positions, uint64_t seed) {
  std::mt19937_64 random(seed);
  Model model;
  model.token_table = RandomTable(static_cast<size_t>(kVocabulary), random);
  model.position_table = RandomTable(positions, random);
  return model;
}

TableGradients ZeroGradients(const Model& model) {
  TableGradients gradients;
  gradients.token_table.resize(model.token_table.size());
  gradients.position_table.resize(model.position_table.size());
  return gradients;
}

void AddTo(TableGradients& sum, const TableGradients& part) {
  AddTo(sum.token_table, part.token_table);
  AddTo(sum.position_table, part.position_table);
}

Hidden Embed(const Model& model, const TokenInputs& inputs) {
  const size_t token = static_cast<size_t>(inputs.token) * kHidden;
  const size_t position = static_cast<size_t>(inputs.position) * kHidden;
  Hidden hidden{};
  for (size_t i = 0; i < kHidden; ++i) {
    hidden[i] = double{model.token_table[token + i]} + model.position_table[position + i];
  }
  return hidden;
}

Hidden Attend(absl::Span<const Hidden> hidden, size_t t) {
  Hidden sum{};
  for (size_t s = 0; s <= t; ++s) AddScaled(sum, Dot(hidden[t], hidden[s]), hidden[s]);
  Hidden mixed = hidden[t];
  AddScaled(mixed, AttentionScale(t), sum);
  return mixed;
}

float TokenLoss(const Model& model, const TokenInputs& inputs, const Hidden& mixed,
                Hidden& mixed_gradient, TableGradients& gradients) {
  mixed_gradient = {};
  if (inputs.label == kNoLabel) return 0;
  const size_t label = static_cast<size_t>(inputs.label) * kHidden;
  double score = 0;
  for (size_t i = 0; i < kHidden; ++i) score += mixed[i] * model.token_table[label + i];
  const double loss = inputs.advantage * std::log1p(std::exp(-score));
  const double slope =
      -inputs.advantage / (1 + std::exp(score)) * inputs.scale;  // d(batch loss)/d(score)
  for (size_t i = 0; i < kHidden; ++i) {
    mixed_gradient[i] = slope * model.token_table[label + i];
    gradients.token_table[label + i] += slope * mixed[i];
  }
  return static_cast<float>(loss);
}

Hidden AttendBackward(absl::Span<const Hidden> hidden, absl::Span<const Hidden> mixed_gradients,
                      size_t t) {
  Hidden gradient = mixed_gradients[t];
  // Through the attention of token `t` itself.
  for (size_t s = 0; s <= t; ++s) {
    AddScaled(gradient, AttentionScale(t) * Dot(mixed_gradients[t], hidden[s]), hidden[s]);
  }
  // Through the attention of token `t` and of all later ones to it.
  for (size_t u = t; u < hidden.size(); ++u) {
    const double scale = AttentionScale(u);
    AddScaled(gradient, scale * Dot(mixed_gradients[u], hidden[t]), hidden[u]);
    AddScaled(gradient, scale * Dot(hidden[u], hidden[t]), mixed_gradients[u]);
  }
  return gradient;
}

void EmbedBackward(const TokenInputs& inputs, const Hidden& hidden_gradient,
                   TableGradients& gradients) {
  const size_t token = static_cast<size_t>(inputs.token) * kHidden;
  const size_t position = static_cast<size_t>(inputs.position) * kHidden;
  for (size_t i = 0; i < kHidden; ++i) {
    gradients.token_table[token + i] += hidden_gradient[i];
    gradients.position_table[position + i] += hidden_gradient[i];
  }
}

}  // namespace batchplan::examples
