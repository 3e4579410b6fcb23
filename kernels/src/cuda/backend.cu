#include <cuda_runtime.h>

#include "src/backends.h"
#include "src/cuda/launch.h"

namespace batchplan::kernels::cuda {
namespace {

// Those that this file is compiled for, and so all of the kernels: 100 times the major number of
// the compute capability and 10 times the minor one.
constexpr int kArchitectures[] = {__CUDA_ARCH_LIST__};

// Whether the machine code or the PTX of this build runs on the current device. Asks without making
// a context there.
cudaError_t FindCode(bool& found) {
  int device = 0;
  int major = 0;
  int minor = 0;
  int driver = 0;
  for (const cudaError_t error :
       {cudaGetDevice(&device),
        cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device),
        cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device),
        cudaDriverGetVersion(&driver)}) {
    if (error != cudaSuccess) return error;
  }
  const int capability = 100 * major + 10 * minor;
  found =
      BATCHPLAN_LEAST_PTX > 0 && capability >= 10 * BATCHPLAN_LEAST_PTX && driver >= CUDART_VERSION;
  for (const int architecture : kArchitectures) {
    found = found || (architecture / 100 == major && architecture <= capability);
  }
  return cudaSuccess;
}

}  // namespace

batchplan_status BackendStatus() {
  int devices = 0;
  bool found = false;
  cudaError_t error = cudaGetDeviceCount(&devices);
  if (error == cudaSuccess && devices > 0) error = FindCode(found);
  // A question must not leave an error behind for the next one who asks for the last.
  if (error != cudaSuccess) static_cast<void>(cudaGetLastError());
  if (found) return BATCHPLAN_OK;
  if (error == cudaSuccess)
    error = devices > 0 ? cudaErrorNoKernelImageForDevice : cudaErrorNoDevice;
  last_error = error;
  return BATCHPLAN_ERROR_NO_DEVICE;
}

const char* LastError() { return last_error == cudaSuccess ? "" : cudaGetErrorString(last_error); }

}  // namespace batchplan::kernels::cuda
