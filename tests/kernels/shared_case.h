// Forests with a tensor each, of any element size and alignment, padded or ragged, with rows in any
// order.

#ifndef BATCHPLAN_TESTS_KERNELS_SHARED_CASE_H_
#define BATCHPLAN_TESTS_KERNELS_SHARED_CASE_H_

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "forest.h"
#include "memory.h"
#include "move_case.h"
#include "packed_row.h"

namespace batchplan::kernels {

// The forest of the documents: a b c d e, a b c f g h i, a b j k.
inline const Forest kExampleForest = {{5, 7, 4}, {0, 3, 2}};

// The multiple has no effect on a row of shared prefixes.
inline batchplan_layout_options RowOfWidth(uint32_t width) {
  return {.length_multiple = 8, .context_parallel = 1, .row_width = width};
}

PackedRow RowOfForest(batchplan_backend backend, const Forest& forest, uint32_t tail);

// A row of a forest, and a tensor of its sequences.
struct SharedCase {
  Forest forest;
  uint32_t tail = 0;
  Case field;
  std::vector<int64_t> offsets;

  batchplan_sequences Sequences(Buffer<uint32_t>& index, Buffer<int64_t>& places) const {
    return {.sequence_index = index.data(),
            .offsets = field.ragged ? places.data() : nullptr,
            .num_rows = field.num_rows,
            .num_tokens = static_cast<uint64_t>(offsets.back())};
  }
  size_t tokens() const { return static_cast<size_t>(offsets.back()); }
  // Where the tensor has token `token` of sequence `sequence`.
  size_t PlaceOf(size_t sequence, size_t token) const {
    return static_cast<size_t>(offsets[field.index[sequence]]) + token;
  }
};

// Calls `check` with the edge forests and with `rounds` random ones, until one fails fatally.
void ForEachForest(uint32_t seed, uint64_t rounds,
                   const std::function<void(const SharedCase&, Generator&)>& check);

}  // namespace batchplan::kernels

#endif  // BATCHPLAN_TESTS_KERNELS_SHARED_CASE_H_
