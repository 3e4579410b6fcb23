// The executors behind the C API, one per backend.
//
// The C entry points check the arguments and dispatch to these; an executor may rely on pointers
// that are set where the contract requires them and on the checks of *_arithmetic.h. Contracts,
// thread-safety and costs are those of batchplan/kernels.h.

#ifndef BATCHPLAN_KERNELS_SRC_BACKENDS_H_
#define BATCHPLAN_KERNELS_SRC_BACKENDS_H_

#include <cstddef>
#include <cstdint>

#include "batchplan/kernels.h"
#include "src/gradient_arithmetic.h"
#include "src/move_arithmetic.h"
#include "src/reduce_arithmetic.h"

namespace batchplan::kernels {

constexpr bool IsBackend(batchplan_backend backend) {
  return backend == BATCHPLAN_BACKEND_HOST || backend == BATCHPLAN_BACKEND_CUDA;
}

namespace host {

batchplan_status ComputeLayout(const SequenceLengths& sequences,
                               const batchplan_layout_options& options,
                               const batchplan_packed_layout& layout, batchplan_status* error_word);
batchplan_status Pack(const Movement& movement, batchplan_status* error_word);
batchplan_status Unpack(const Movement& movement, batchplan_status* error_word);
batchplan_status UnpackGradient(const GradientTask& task, batchplan_status* error_word);
batchplan_status Reduce(const Row& row, const batchplan_reduction& reduction,
                        batchplan_status* error_word, const Workspace& workspace);

}  // namespace host

// A build without CUDA links src/cuda/absent.cc, where all say BATCHPLAN_ERROR_BACKEND_NOT_BUILT.
namespace cuda {

batchplan_status BackendStatus();

// As batchplan_backend_error.
const char* LastError();

batchplan_status ComputeLayout(const SequenceLengths& sequences,
                               const batchplan_layout_options& options,
                               const batchplan_packed_layout& layout, batchplan_status* error_word,
                               void* stream);
batchplan_status Pack(const Movement& movement, batchplan_status* error_word, void* stream);
batchplan_status Unpack(const Movement& movement, batchplan_status* error_word, void* stream);
batchplan_status UnpackGradient(const GradientTask& task, batchplan_status* error_word,
                                void* stream);
batchplan_status Reduce(const Row& row, const batchplan_reduction& reduction,
                        batchplan_status* error_word, const Workspace& workspace, void* stream);

batchplan_status Copy(void* destination, const void* source, size_t bytes, void* stream);

batchplan_status Wait(void* stream);

}  // namespace cuda

}  // namespace batchplan::kernels

#endif  // BATCHPLAN_KERNELS_SRC_BACKENDS_H_
