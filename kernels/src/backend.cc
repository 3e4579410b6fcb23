#include "batchplan/kernels/status.h"
#include "src/backends.h"

namespace kernels = batchplan::kernels;

batchplan_status batchplan_backend_status(batchplan_backend backend) {
  if (!kernels::IsBackend(backend)) return BATCHPLAN_ERROR_UNKNOWN_BACKEND;
  return backend == BATCHPLAN_BACKEND_CUDA ? kernels::cuda::BackendStatus() : BATCHPLAN_OK;
}

int batchplan_backend_available(batchplan_backend backend) {
  return batchplan_backend_status(backend) == BATCHPLAN_OK ? 1 : 0;
}
const char* batchplan_backend_error(batchplan_backend backend) {
  return backend == BATCHPLAN_BACKEND_CUDA ? kernels::cuda::LastError() : "";
}
