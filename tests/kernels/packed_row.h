// A packed row on any backend: computes its layout, moves its tensors, brings back its errors.
//
//   PackedRow row(BATCHPLAN_BACKEND_CUDA, {2, 4, 6, 1}, options, /*rank=*/0);
//   EXPECT_EQ(row.Pack(sequences, {field}), BATCHPLAN_OK);
//
// Every call waits for the device. For one thread.

#ifndef BATCHPLAN_TESTS_KERNELS_PACKED_ROW_H_
#define BATCHPLAN_TESTS_KERNELS_PACKED_ROW_H_

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "batchplan/kernels.h"
#include "memory.h"

namespace batchplan::kernels {

class PackedRow {
 public:
  // The test fails if the layout can't be made. Without `shared`, no prefixes are shared.
  PackedRow(batchplan_backend backend, const std::vector<uint32_t>& lengths,
            const batchplan_layout_options& options, uint32_t rank = 0,
            const std::optional<std::vector<uint32_t>>& shared = std::nullopt);

  // Each clears the error word, makes the call, and returns the call's error or else the error
  // word.
  batchplan_status Pack(const batchplan_sequences& sequences,
                        const std::vector<batchplan_field>& fields);
  batchplan_status Unpack(const batchplan_sequences& sequences,
                          const std::vector<batchplan_field>& fields);
  batchplan_status UnpackGradient(const batchplan_sequences& sequences,
                                  const batchplan_gradient& gradient);
  batchplan_status Reduce(const batchplan_reduction& reduction);

  // May be changed before a call.
  batchplan_row& row() { return row_; }
  // Overwrites the computed offsets.
  void SetOffsets(const std::vector<int32_t>& cu_seqlens,
                  const std::vector<int32_t>& cu_seqlens_padded);
  void SetLeastShared(const std::vector<int32_t>& least_shared);
  // The number of cells on the packed side of a field.
  size_t cells() const;

 private:
  batchplan_status Outcome(batchplan_status returned);

  batchplan_backend backend_;
  Buffer<int32_t> cu_seqlens_;
  Buffer<int32_t> cu_seqlens_padded_;
  Buffer<int32_t> least_shared_;
  Buffer<batchplan_status> error_word_;
  batchplan_row row_;
};

// A field of T, with one element a token by default.
template <typename T>
batchplan_field FieldOf(const T* source, T* destination, uint64_t width, T pad = T{},
                        uint64_t elements_per_token = 1) {
  batchplan_field field = {.element_size = sizeof(T),
                           .elements_per_token = elements_per_token,
                           .source = source,
                           .destination = destination,
                           .width = width};
  std::memcpy(field.pad_value, &pad, sizeof pad);
  return field;
}

template <typename T>
batchplan_field IdsOf(batchplan_content content, T* destination) {
  return {.content = content,
          .element_size = sizeof(T),
          .elements_per_token = 1,
          .destination = destination};
}

// The characters of all strings in a row: rows of a padded field of bytes.
std::vector<char> Characters(std::initializer_list<std::string_view> rows);

}  // namespace batchplan::kernels

#endif  // BATCHPLAN_TESTS_KERNELS_PACKED_ROW_H_
