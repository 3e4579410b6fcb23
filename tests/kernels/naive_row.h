// The content of every cell of a packed row, laid out token by token into lists, as a person would.
// Shares no code with the library.

#ifndef BATCHPLAN_TESTS_KERNELS_NAIVE_ROW_H_
#define BATCHPLAN_TESTS_KERNELS_NAIVE_ROW_H_

#include <cstdint>
#include <vector>

#include "batchplan/kernels.h"

namespace batchplan::kernels {

struct NaiveCell {
  // -1 in the tail.
  int32_t sequence = -1;
  // The position in the padded sequence.
  int32_t token = 0;
  bool is_padding = true;
};

// The row of context-parallel rank `rank`, or the rows of all ranks one after the other.
std::vector<NaiveCell> NaiveRow(const std::vector<uint32_t>& lengths,
                                const batchplan_layout_options& options, uint32_t rank);

// `length` rounded up to the multiple; or the sequence width, if there is one.
uint32_t NaivePaddedLength(uint32_t length, const batchplan_layout_options& options);

}  // namespace batchplan::kernels

#endif  // BATCHPLAN_TESTS_KERNELS_NAIVE_ROW_H_
