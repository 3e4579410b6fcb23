// The parts of the CUDA runtime that the kernels and their tests call, in place of libcudart: one
// device, whose kernels are interpreted. One call runs at a time.

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstring>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "ptx/findings.h"
#include "ptx/launch.h"
#include "ptx/memory.h"
#include "ptx/streams.h"

namespace batchplan::ptx {
namespace {

thread_local cudaError_t last_error = cudaSuccess;

cudaError_t Return(cudaError_t error) {
  if (error != cudaSuccess) last_error = error;
  return error;
}

// Recursive, because a finding may fail a test, which then frees memory.
std::recursive_mutex mutex;

// Runs `call` unless an earlier kernel has failed. If the call waits, `call` waits first.
template <typename Call>
cudaError_t Guarded(const Call& call) {
  const std::lock_guard<std::recursive_mutex> lock(mutex);
  if (StickyError() != cudaSuccess) return Return(StickyError());
  const cudaError_t error = call();
  if (StickyError() != cudaSuccess) return Return(StickyError());
  return Return(error);
}

// For calls that may not be made while a stream is captured.
template <typename Call>
cudaError_t GuardedOutsideOfCaptures(const Call& call) {
  return Guarded([&] {
    if (const cudaError_t error = Streams::Get().CheckNoCapture(); error != cudaSuccess) {
      return error;
    }
    return call();
  });
}

template <typename Call>
cudaError_t GuardedOn(cudaStream_t handle, const Call& call) {
  return Guarded([&] {
    Stream* const stream = Streams::Get().Find(handle);
    return stream == nullptr ? cudaErrorInvalidResourceHandle : call(*stream);
  });
}

// Where the host can access memory of either side.
char* HostViewOf(const void* pointer, size_t bytes) {
  DeviceMemory& memory = DeviceMemory::Get();
  if (!memory.IsDevice(pointer)) return static_cast<char*>(const_cast<void*>(pointer));
  char* const view = memory.HostView(pointer, bytes);
  if (view == nullptr) {
    ReportFinding({FindingKind::kOutOfBounds,
                   "a copy of " + std::to_string(bytes) + " bytes is out of bounds: " +
                       memory.Describe(reinterpret_cast<uint64_t>(pointer))});
  }
  return view;
}

void Copy(void* destination, const void* source, size_t bytes) {
  if (bytes == 0) return;
  char* const to = HostViewOf(destination, bytes);
  const char* const from = HostViewOf(source, bytes);
  if (to != nullptr && from != nullptr) std::memmove(to, from, bytes);
}

void Fill(void* destination, int value, size_t bytes) {
  if (bytes == 0) return;
  if (char* const to = HostViewOf(destination, bytes)) std::memset(to, value, bytes);
}

cudaError_t Allocate(void** pointer, size_t bytes, bool managed) {
  return GuardedOutsideOfCaptures([&] {
    DeviceMemory& memory = DeviceMemory::Get();
    *pointer = bytes == 0 ? nullptr
               : managed  ? memory.AllocateManaged(bytes)
                          : memory.Allocate(bytes);
    return bytes > 0 && *pointer == nullptr ? cudaErrorMemoryAllocation : cudaSuccess;
  });
}

}  // namespace
}  // namespace batchplan::ptx

extern "C" {

using namespace batchplan::ptx;  // NOLINT: the names of this file are those of C

cudaError_t cudaGetDeviceCount(int* count) {
  *count = 1;
  return cudaSuccess;
}
cudaError_t cudaGetDevice(int* device) {
  *device = 0;
  return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int /*device*/) {
  // A device of compute capability 9.0, to which the PTX belongs.
  *value = attribute == cudaDevAttrComputeCapabilityMajor ? 9 : 0;
  return cudaSuccess;
}
cudaError_t cudaDriverGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int device) {
  return Return(device == 0 ? cudaSuccess : cudaErrorInvalidDevice);
}

cudaError_t cudaGetLastError() { return std::exchange(last_error, cudaSuccess); }
cudaError_t cudaPeekAtLastError() { return last_error; }
const char* cudaGetErrorName(cudaError_t error) { return cudaGetErrorString(error); }
const char* cudaGetErrorString(cudaError_t error) {
  switch (error) {
    case cudaSuccess:
      return "no error";
    case cudaErrorIllegalAddress:
      return "an illegal memory access was encountered";
    case cudaErrorMisalignedAddress:
      return "misaligned address";
    case cudaErrorLaunchTimeout:
      return "the launch does not end";
    case cudaErrorInvalidPtx:
      return "the PTX is not interpreted";
    case cudaErrorInvalidConfiguration:
      return "invalid configuration";
    default:
      return "CUDA error";
  }
}

cudaError_t cudaMalloc(void** pointer, size_t bytes) {
  return Allocate(pointer, bytes, /*managed=*/false);
}
cudaError_t cudaMallocManaged(void** pointer, size_t bytes, unsigned int /*flags*/) {
  return Allocate(pointer, bytes, /*managed=*/true);
}
cudaError_t cudaFree(void* pointer) {
  return GuardedOutsideOfCaptures([&] {
    Streams::Get().WaitForAll();
    return DeviceMemory::Get().Free(pointer) ? cudaSuccess : cudaErrorInvalidValue;
  });
}

cudaError_t cudaMemcpy(void* destination, const void* source, size_t bytes,
                       cudaMemcpyKind /*kind*/) {
  return GuardedOutsideOfCaptures([&] {
    Streams::Get().Wait(*Streams::Get().Find(nullptr));
    Copy(destination, source, bytes);
    return cudaSuccess;
  });
}
cudaError_t cudaMemcpyAsync(void* destination, const void* source, size_t bytes,
                            cudaMemcpyKind /*kind*/, cudaStream_t handle) {
  return GuardedOn(handle, [&](Stream& stream) {
    if (DeviceMemory::Get().IsDevice(source) || stream.capture != nullptr) {
      return Streams::Get().Enqueue(stream, [=] { Copy(destination, source, bytes); });
    }
    // Host memory that is not pinned is read before the call returns.
    const char* const begin = static_cast<const char*>(source);
    return Streams::Get().Enqueue(stream,
                                  [destination, staged = std::vector<char>(begin, begin + bytes)] {
                                    Copy(destination, staged.data(), staged.size());
                                  });
  });
}
cudaError_t cudaMemset(void* destination, int value, size_t bytes) {
  return GuardedOutsideOfCaptures([&] {
    Streams::Get().Wait(*Streams::Get().Find(nullptr));
    Fill(destination, value, bytes);
    return cudaSuccess;
  });
}
cudaError_t cudaMemsetAsync(void* destination, int value, size_t bytes, cudaStream_t handle) {
  return GuardedOn(handle, [&](Stream& stream) {
    return Streams::Get().Enqueue(stream, [=] { Fill(destination, value, bytes); });
  });
}

cudaError_t cudaLaunchKernel(const void* stub, dim3 grid, dim3 block, void** arguments,
                             size_t shared_bytes, cudaStream_t stream) {
  return Guarded([&] { return Launch(stub, grid, block, arguments, shared_bytes, stream); });
}
cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* config, const void* stub,
                                void** arguments) {
  if (config->numAttrs != 0) return Return(cudaErrorNotSupported);
  return cudaLaunchKernel(stub, config->gridDim, config->blockDim, arguments,
                          config->dynamicSmemBytes, config->stream);
}

cudaError_t cudaDeviceSynchronize() {
  return GuardedOutsideOfCaptures([] {
    Streams::Get().WaitForAll();
    return cudaSuccess;
  });
}
// Unlike on a device, allocations survive.
cudaError_t cudaDeviceReset() {
  const std::lock_guard<std::recursive_mutex> lock(mutex);
  Streams::Get().WaitForAll();
  SetStickyError(cudaSuccess);
  last_error = cudaSuccess;
  return cudaSuccess;
}

cudaError_t cudaStreamCreate(cudaStream_t* stream) {
  return Guarded([&] {
    *stream = Streams::Get().Create();
    return cudaSuccess;
  });
}
cudaError_t cudaStreamDestroy(cudaStream_t handle) {
  return GuardedOn(handle, [&](Stream& /*stream*/) {
    Streams::Get().Destroy(handle);
    return cudaSuccess;
  });
}
cudaError_t cudaStreamSynchronize(cudaStream_t handle) {
  return GuardedOutsideOfCaptures([&] {
    return GuardedOn(handle, [](Stream& stream) {
      Streams::Get().Wait(stream);
      return cudaSuccess;
    });
  });
}

cudaError_t cudaStreamBeginCapture(cudaStream_t handle, cudaStreamCaptureMode mode) {
  return GuardedOn(handle, [&](Stream& stream) {
    return Streams::Get().BeginCapture(stream, mode == cudaStreamCaptureModeGlobal);
  });
}
cudaError_t cudaStreamEndCapture(cudaStream_t handle, cudaGraph_t* graph) {
  return GuardedOn(handle, [&](Stream& stream) {
    std::unique_ptr<Graph> captured = Streams::Get().EndCapture(stream);
    *graph = reinterpret_cast<cudaGraph_t>(captured.release());
    return *graph == nullptr ? cudaErrorStreamCaptureInvalidated : cudaSuccess;
  });
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* executable, cudaGraph_t graph,
                                 unsigned long long /*flags*/) {
  *executable = reinterpret_cast<cudaGraphExec_t>(new Graph(*reinterpret_cast<Graph*>(graph)));
  return cudaSuccess;
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t handle) {
  return GuardedOn(handle, [&](Stream& stream) {
    for (const Work& node : reinterpret_cast<Graph*>(executable)->nodes) {
      if (const cudaError_t error = Streams::Get().Enqueue(stream, node); error != cudaSuccess) {
        return error;
      }
    }
    return cudaSuccess;
  });
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete reinterpret_cast<Graph*>(graph);
  return cudaSuccess;
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable) {
  delete reinterpret_cast<Graph*>(executable);
  return cudaSuccess;
}

}  // extern "C"
