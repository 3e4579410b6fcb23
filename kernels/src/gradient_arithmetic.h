// Which tokens of the sequences a token of a row that shares prefixes adds up, one text for the
// host executor and the CUDA kernel.

#ifndef BATCHPLAN_KERNELS_SRC_GRADIENT_ARITHMETIC_H_
#define BATCHPLAN_KERNELS_SRC_GRADIENT_ARITHMETIC_H_

#include <stdint.h>

#include "batchplan/kernels/unpack_gradient.h"
#include "src/elements.h"
#include "src/host_device.h"
#include "src/move_arithmetic.h"
#include "src/row_arithmetic.h"
#include "src/shared_arithmetic.h"

namespace batchplan::kernels {

// A call's arguments, checked.
struct GradientTask {
  Row row;
  batchplan_sequences sequences;
  batchplan_gradient gradient;
};

// Calls with(Type{}) for the type of the gradient's elements, one of those that are added up.
template <typename With>
auto WithElements(batchplan_data_type type, const With& with) {
  switch (type) {
    case BATCHPLAN_FLOAT16:
      return with(Float16{});
    case BATCHPLAN_BFLOAT16:
      return with(Bfloat16{});
    case BATCHPLAN_FLOAT64:
      return with(Float64{});
    default:
      return with(Float32{});
  }
}

// Where the tokens of sequence `sequence` begin in the source, and how many may be read.
BATCHPLAN_HOST_DEVICE inline FieldRow GradientRowOf(const GradientTask& task, uint32_t sequence) {
  const SequencePlace place = PlaceOf(task.row, task.sequences, sequence);
  return FieldRowOf(task.sequences, place, task.gradient.width);
}

}  // namespace batchplan::kernels

#endif  // BATCHPLAN_KERNELS_SRC_GRADIENT_ARITHMETIC_H_
