#include "packed_row.h"

#include <algorithm>

namespace batchplan::kernels {

PackedRow::PackedRow(batchplan_backend backend, const std::vector<uint32_t>& lengths,
                     const batchplan_layout_options& options, uint32_t rank,
                     const std::optional<std::vector<uint32_t>>& shared)
    : backend_(backend),
      cu_seqlens_(backend, lengths.size() + 1),
      cu_seqlens_padded_(backend, lengths.size() + 1),
      least_shared_(backend, lengths.size()),
      error_word_(backend, std::vector<batchplan_status>{BATCHPLAN_OK}),
      row_{.cu_seqlens = cu_seqlens_.data(),
           .cu_seqlens_padded = cu_seqlens_padded_.data(),
           .num_sequences = static_cast<uint32_t>(lengths.size()),
           .options = options,
           .context_parallel_rank = rank,
           .least_shared = shared ? least_shared_.data() : nullptr} {
  Buffer<uint32_t> input(backend, lengths);
  Buffer<uint32_t> shared_input(backend, shared.value_or(std::vector<uint32_t>{}));
  const batchplan_packed_layout layout = {.cu_seqlens = cu_seqlens_.data(),
                                          .cu_seqlens_padded = cu_seqlens_padded_.data(),
                                          .least_shared = least_shared_.data()};
  EXPECT_EQ(Outcome(batchplan_compute_layout(
                backend, input.data(), shared ? shared_input.data() : nullptr, row_.num_sequences,
                &options, &layout, error_word_.data(), nullptr)),
            BATCHPLAN_OK);
}

batchplan_status PackedRow::Outcome(batchplan_status returned) {
  const batchplan_status found = error_word_.Values().front();
  error_word_.Write({BATCHPLAN_OK});
  if (returned != BATCHPLAN_OK && found != BATCHPLAN_OK) {
    EXPECT_EQ(returned, found);
  }
  return returned != BATCHPLAN_OK ? returned : found;
}

batchplan_status PackedRow::Pack(const batchplan_sequences& sequences,
                                 const std::vector<batchplan_field>& fields) {
  return Outcome(batchplan_pack(backend_, &row_, &sequences, fields.data(),
                                static_cast<uint32_t>(fields.size()), error_word_.data(), nullptr));
}

batchplan_status PackedRow::Unpack(const batchplan_sequences& sequences,
                                   const std::vector<batchplan_field>& fields) {
  return Outcome(batchplan_unpack(backend_, &row_, &sequences, fields.data(),
                                  static_cast<uint32_t>(fields.size()), error_word_.data(),
                                  nullptr));
}

batchplan_status PackedRow::UnpackGradient(const batchplan_sequences& sequences,
                                           const batchplan_gradient& gradient) {
  return Outcome(batchplan_unpack_gradient(backend_, &row_, &sequences, &gradient,
                                           error_word_.data(), nullptr));
}

batchplan_status PackedRow::Reduce(const batchplan_reduction& reduction) {
  size_t workspace_size = 0;
  EXPECT_EQ(batchplan_reduce_workspace_size(backend_, row_.num_sequences, row_.options.row_width,
                                            &workspace_size),
            BATCHPLAN_OK);
  Memory workspace(backend_, workspace_size);
  return Outcome(batchplan_reduce(backend_, &row_, &reduction, error_word_.data(), workspace.data(),
                                  workspace_size, nullptr));
}

void PackedRow::SetOffsets(const std::vector<int32_t>& cu_seqlens,
                           const std::vector<int32_t>& cu_seqlens_padded) {
  cu_seqlens_.Write(cu_seqlens);
  cu_seqlens_padded_.Write(cu_seqlens_padded);
}

void PackedRow::SetLeastShared(const std::vector<int32_t>& least_shared) {
  least_shared_.Write(least_shared);
}

size_t PackedRow::cells() const {
  const uint32_t width = row_.options.row_width;
  return row_.context_parallel_rank == BATCHPLAN_ALL_RANKS ? width
                                                           : width / row_.options.context_parallel;
}

std::vector<char> Characters(std::initializer_list<std::string_view> rows) {
  std::vector<char> characters;
  for (const std::string_view row : rows)
    characters.insert(characters.end(), row.begin(), row.end());
  return characters;
}

}  // namespace batchplan::kernels
