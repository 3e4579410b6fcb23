#include "client/cpp/examples/worker/padded_step.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "batchplan/kernels.h"

namespace batchplan::examples {
namespace {

// The alignment that the kernels require.
struct alignas(256) WorkspaceBlock {
  unsigned char bytes[256];
};

// The inputs of token `t` of sequence `s`.
TokenInputs InputsOf(const Batch& batch, size_t s, size_t t) {
  const size_t place = s * batch.width + t;
  TokenInputs inputs;
  inputs.token = batch.input_ids[place];
  inputs.position = static_cast<int64_t>(t);
  inputs.advantage = batch.advantages[s];
  // The last token predicts nothing.
  const bool predicts = t + 1 < batch.lengths[s];
  inputs.label = predicts ? batch.input_ids[place + 1] : kNoLabel;
  inputs.scale = predicts && batch.loss_mask[place + 1] != 0 ? batch.loss_scales[s] : 0;
  return inputs;
}

}  // namespace

StepResults PaddedStep(const Batch& batch, const Model& model) {
  StepResults results = ZeroResults(batch, model);
  for (size_t s = 0; s < batch.sequences(); ++s) {
    const size_t row = s * batch.width;
    const size_t length = batch.lengths[s];
    std::vector<TokenInputs> inputs(length);
    std::vector<Hidden> hidden(length);
    for (size_t t = 0; t < length; ++t) {
      inputs[t] = InputsOf(batch, s, t);
      hidden[t] = Embed(model, inputs[t]);
    }
    double sum = 0;
    std::vector<Hidden> mixed_gradients(length);
    for (size_t t = 0; t < length; ++t) {
      const float loss =
          TokenLoss(model, inputs[t], Attend(hidden, t), mixed_gradients[t], results.gradients);
      if (inputs[t].label == kNoLabel) continue;
      results.token_losses[row + t + 1] = loss;
      if (batch.loss_mask[row + t + 1] != 0) sum += loss;
    }
    for (size_t t = 0; t < length; ++t) {
      const Hidden gradient = AttendBackward(hidden, mixed_gradients, t);
      EmbedBackward(inputs[t], gradient, results.gradients);
      std::copy(gradient.begin(), gradient.end(), &results.hidden_gradients[(row + t) * kHidden]);
    }
    const double mean = batch.denominators[s] > 0 ? sum / batch.denominators[s] : 0;
    results.sequence_means[s] = static_cast<float>(mean);
    results.loss += mean / static_cast<double>(batch.sequences());
  }
  return results;
}

absl::StatusOr<std::vector<float>> PaddedReduction(const Batch& batch,
                                                   const std::vector<float>& token_losses) {
  const auto sequences = static_cast<uint32_t>(batch.sequences());
  batchplan_layout_options options = {};
  options.length_multiple = 1;
  options.context_parallel = 1;
  options.row_width = static_cast<uint32_t>(batch.sequences() * batch.width);
  options.sequence_width = static_cast<uint32_t>(batch.width);
  std::vector<int32_t> cu_seqlens(batch.sequences() + 1);
  std::vector<int32_t> cu_seqlens_padded(batch.sequences() + 1);
  batchplan_packed_layout layout = {};
  layout.cu_seqlens = cu_seqlens.data();
  layout.cu_seqlens_padded = cu_seqlens_padded.data();
  batchplan_status status =
      batchplan_compute_layout(BATCHPLAN_BACKEND_HOST, batch.lengths.data(), nullptr, sequences,
                               &options, &layout, nullptr, nullptr);
  if (status != BATCHPLAN_OK) return absl::InternalError(batchplan_status_string(status));

  // Shifted by one: the model has a token's loss at the token before it.
  std::vector<float> predictions(token_losses.begin() + 1, token_losses.end());
  std::vector<uint8_t> weights(batch.loss_mask.begin() + 1, batch.loss_mask.end());
  predictions.push_back(0);
  weights.push_back(0);

  std::vector<float> means(batch.sequences());
  batchplan_row row = {};
  row.cu_seqlens = cu_seqlens.data();
  row.cu_seqlens_padded = cu_seqlens_padded.data();
  row.num_sequences = sequences;
  row.options = options;
  batchplan_reduction reduction = {};
  reduction.values = predictions.data();
  reduction.value_type = BATCHPLAN_FLOAT32;
  reduction.weights = weights.data();
  reduction.weight_type = BATCHPLAN_UINT8;
  reduction.denominators = batch.denominators.data();
  reduction.means = means.data();
  size_t workspace_size = 0;
  status = batchplan_reduce_workspace_size(BATCHPLAN_BACKEND_HOST, sequences, options.row_width,
                                           &workspace_size);
  std::vector<WorkspaceBlock> workspace(workspace_size / sizeof(WorkspaceBlock) + 1);
  if (status == BATCHPLAN_OK) {
    status = batchplan_reduce(BATCHPLAN_BACKEND_HOST, &row, &reduction, nullptr, workspace.data(),
                              workspace_size, nullptr);
  }
  if (status != BATCHPLAN_OK) return absl::InternalError(batchplan_status_string(status));
  return means;
}

}  // namespace batchplan::examples
