#include "layout_runner.h"

namespace batchplan::kernels {

LayoutResult RunLayout(batchplan_backend backend, const std::vector<uint32_t>& lengths,
                       const batchplan_layout_options& options, batchplan_status initial_error,
                       const std::optional<std::vector<uint32_t>>& shared) {
  const auto num_sequences = static_cast<uint32_t>(lengths.size());
  Buffer<uint32_t> input(backend, lengths);
  Buffer<uint32_t> shared_input(backend, shared.value_or(std::vector<uint32_t>{}));
  Buffer<batchplan_status> error_word(backend, std::vector<batchplan_status>{initial_error});
  Buffer<int32_t> cu_seqlens(backend, lengths.size() + 1);
  Buffer<int32_t> cu_seqlens_padded(backend, lengths.size() + 1);
  Buffer<int32_t> cu_seqlens_padded_per_rank(backend, lengths.size() + 1);
  Buffer<int32_t> max_seqlen(backend, 1);
  Buffer<int32_t> max_seqlen_padded(backend, 1);
  Buffer<int32_t> cu_new(backend, lengths.size() + 1);
  Buffer<int32_t> least_shared(backend, lengths.size());
  Buffer<int32_t> subtree_end(backend, shared ? options.row_width : 0);
  const batchplan_packed_layout layout = {
      .cu_seqlens = cu_seqlens.data(),
      .cu_seqlens_padded = cu_seqlens_padded.data(),
      .cu_seqlens_padded_per_rank = cu_seqlens_padded_per_rank.data(),
      .max_seqlen = max_seqlen.data(),
      .max_seqlen_padded = max_seqlen_padded.data(),
      .cu_new = cu_new.data(),
      .least_shared = least_shared.data(),
      .subtree_end = shared ? subtree_end.data() : nullptr};

  LayoutResult result;
  result.status =
      batchplan_compute_layout(backend, input.data(), shared ? shared_input.data() : nullptr,
                               num_sequences, &options, &layout, error_word.data(), nullptr);
  result.error_word = error_word.Values().front();
  if (result.status == BATCHPLAN_OK) result.status = result.error_word;
  result.cu_seqlens = cu_seqlens.Values();
  result.cu_seqlens_padded = cu_seqlens_padded.Values();
  result.cu_seqlens_padded_per_rank = cu_seqlens_padded_per_rank.Values();
  result.max_seqlen = max_seqlen.Values().front();
  result.max_seqlen_padded = max_seqlen_padded.Values().front();
  result.cu_new = cu_new.Values();
  result.least_shared = least_shared.Values();
  result.subtree_end = subtree_end.Values();
  return result;
}

}  // namespace batchplan::kernels
