#include "client/cpp/examples/worker/model.h"

#include <algorithm>
#include <array>
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

float TokenStep(const Model& model, const TokenInputs& inputs, float* hidden_gradient,
                TableGradients& gradients) {
  std::fill_n(hidden_gradient, kHidden, 0.0F);
  if (inputs.label == kNoLabel) return 0;
  const size_t token = static_cast<size_t>(inputs.token) * kHidden;
  const size_t position = static_cast<size_t>(inputs.position) * kHidden;
  const size_t label = static_cast<size_t>(inputs.label) * kHidden;

  std::array<double, kHidden> hidden{};
  double score = 0;
  for (size_t i = 0; i < kHidden; ++i) {
    hidden[i] = double{model.token_table[token + i]} + model.position_table[position + i];
    score += hidden[i] * model.token_table[label + i];
  }
  const double loss = inputs.advantage * std::log1p(std::exp(-score));
  const double slope =
      -inputs.advantage / (1 + std::exp(score)) * inputs.scale;  // d(batch loss)/d(score)
  for (size_t i = 0; i < kHidden; ++i) {
    const double of_hidden = slope * model.token_table[label + i];
    hidden_gradient[i] = static_cast<float>(of_hidden);
    gradients.token_table[token + i] += of_hidden;
    gradients.position_table[position + i] += of_hidden;
    gradients.token_table[label + i] += slope * hidden[i];
  }
  return static_cast<float>(loss);
}

}  // namespace batchplan::examples
