// The kernels for Python's tensors, which come as DLPack: in host memory or on a CUDA device, where
// the work is enqueued on the caller's stream. No tensor library is linked.

#ifndef BATCHPLAN_CLIENT_PYTHON_CORE_KERNELS_H_
#define BATCHPLAN_CLIENT_PYTHON_CORE_KERNELS_H_

#include <nanobind/nanobind.h>

namespace batchplan::python {

// Adds Row and Field to the module.
void BindKernels(nanobind::module_& module);

}  // namespace batchplan::python

#endif  // BATCHPLAN_CLIENT_PYTHON_CORE_KERNELS_H_
