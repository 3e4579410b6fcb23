// The executors behind the C API, one per backend.
//
// kernels.cc checks the arguments and dispatches to these; an executor may rely on pointers that
// are set where the contract requires them and on CheckArguments having said BATCHPLAN_OK.
// Contracts, thread-safety and costs are those of batchplan/kernels.h.

#ifndef BATCHPLAN_KERNELS_SRC_BACKENDS_H_
#define BATCHPLAN_KERNELS_SRC_BACKENDS_H_

#include <cstddef>
#include <cstdint>

#include "batchplan/kernels.h"

namespace batchplan::kernels {

namespace host {

batchplan_status ComputeLayout(const uint32_t* lengths, uint32_t num_sequences,
                               const batchplan_layout_options& options,
                               const batchplan_packed_layout& layout, batchplan_status* error_word);

}  // namespace host

// A build without CUDA links src/cuda/absent.cc, where all say BATCHPLAN_ERROR_BACKEND_NOT_BUILT.
namespace cuda {

batchplan_status BackendStatus();

batchplan_status ComputeLayout(const uint32_t* lengths, uint32_t num_sequences,
                               const batchplan_layout_options& options,
                               const batchplan_packed_layout& layout, batchplan_status* error_word,
                               void* stream);

batchplan_status Copy(void* destination, const void* source, size_t bytes, void* stream);

batchplan_status Wait(void* stream);

}  // namespace cuda

}  // namespace batchplan::kernels

#endif  // BATCHPLAN_KERNELS_SRC_BACKENDS_H_
