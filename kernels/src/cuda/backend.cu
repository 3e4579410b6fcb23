#include <cuda_runtime.h>

#include "src/backends.h"
#include "src/cuda/launch.h"

namespace batchplan::kernels::cuda {
namespace {

// The architectures that this file, and so every kernel, is compiled for: 100 * major + 10 * minor
// of the compute capability.
constexpr int kArchitectures[] = {__CUDA_ARCH_LIST__};

// Whether this build has machine code or PTX that runs on the current device. Creates no context on
// the device.
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
  // Clears the error, so that it does not show up in another caller's check.
  if (error != cudaSuccess) static_cast<void>(cudaGetLastError());
  if (found) return BATCHPLAN_OK;
  if (error == cudaSuccess)
    error = devices > 0 ? cudaErrorNoKernelImageForDevice : cudaErrorNoDevice;
  last_error = error;
  return BATCHPLAN_ERROR_NO_DEVICE;
}

const char* LastError() { return last_error == cudaSuccess ? "" : cudaGetErrorString(last_error); }

}  // namespace batchplan::kernels::cuda
