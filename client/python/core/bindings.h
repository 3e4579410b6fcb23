// What other files add to the module that module.cc makes.

#ifndef BATCHPLAN_CLIENT_PYTHON_CORE_BINDINGS_H_
#define BATCHPLAN_CLIENT_PYTHON_CORE_BINDINGS_H_

#include <nanobind/nanobind.h>

namespace batchplan::python {

// call_rules.cc: the rules for calls that fail, and constants of channels: those of the C++ client.
// Adds CallAttempts, CallKind, Action, and what proto/batchplan/v1/call_rules.h and run_id.h have
// beside them. All times are in seconds.
void BindCallRules(nanobind::module_& module);

// kernels.cc: the kernels for Python's tensors, which come as DLPack: in host memory or on a CUDA
// device, where the work is enqueued on the caller's stream. No tensor library is linked. Adds
// RowLayout, Row and Field.
void BindKernels(nanobind::module_& module);

}  // namespace batchplan::python

#endif  // BATCHPLAN_CLIENT_PYTHON_CORE_BINDINGS_H_
