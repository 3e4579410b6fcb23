#include "ptx/launch.h"

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ptx/executor.h"
#include "ptx/parser.h"
#include "ptx/streams.h"

namespace batchplan::ptx {
namespace {

constexpr size_t kMostSharedBytes = size_t{48} << 10;
constexpr size_t kMostParameterBytes = 4096;
constexpr uint32_t kMostThreads = 1024;

// The data that nvcc embeds for a source file.
struct FatBinary {
  const char* data;
  bool is_parsed = false;
  Module module;
};

struct Registered {
  FatBinary* binary;
  std::string name;
};

// Filled before main, by constructors of the program.
std::map<const void*, Registered>& Stubs() {
  static auto* const stubs = new std::map<const void*, Registered>;
  return *stubs;
}

cudaError_t sticky_error = cudaSuccess;

struct CallConfiguration {
  dim3 grid;
  dim3 block;
  size_t shared_bytes = 0;
  cudaStream_t stream = nullptr;
};
thread_local CallConfiguration pushed;

// With --no-compress, the PTX is text behind a header, the second half of which is the text's size.
void ParseBinary(FatBinary& binary) {
  if (std::exchange(binary.is_parsed, true)) return;
  constexpr size_t kHeaderBytes = 16;
  uint64_t bytes = 0;
  std::memcpy(&bytes, binary.data + kHeaderBytes / 2, sizeof bytes);
  std::string_view text(binary.data, kHeaderBytes + bytes);
  const size_t begin = text.find(".version ");
  if (begin == std::string_view::npos) {
    std::fprintf(stderr, "no PTX is to be read in the program: is it of --no-compress?\n");
    return;
  }
  text.remove_prefix(begin);
  try {
    binary.module = Parse(text.substr(0, text.find('\0')));
  } catch (const ParseError& error) {
    std::fprintf(stderr, "%s\n", error.what());
  }
}

cudaError_t ErrorOf(Fault fault) {
  switch (fault) {
    case Fault::kNone:
      return cudaSuccess;
    case Fault::kIllegalAddress:
      return cudaErrorIllegalAddress;
    case Fault::kMisalignedAddress:
      return cudaErrorMisalignedAddress;
    case Fault::kDeadlock:
      return cudaErrorLaunchTimeout;
  }
  return cudaErrorUnknown;
}

bool IsValid(const Kernel& kernel, dim3 grid, dim3 block) {
  const bool is_flat = grid.y == 1 && grid.z == 1 && block.y == 1 && block.z == 1;
  const uint32_t most = kernel.most_threads > 0 ? kernel.most_threads : kMostThreads;
  return is_flat && grid.x > 0 && grid.x <= INT32_MAX && block.x > 0 && block.x <= most;
}

}  // namespace

cudaError_t StickyError() { return sticky_error; }

void SetStickyError(cudaError_t error) { sticky_error = error; }

cudaError_t Launch(const void* stub, dim3 grid, dim3 block, void** arguments, size_t shared_bytes,
                   cudaStream_t handle) {
  if (sticky_error != cudaSuccess) return sticky_error;
  const auto found = Stubs().find(stub);
  if (found == Stubs().end()) return cudaErrorInvalidDeviceFunction;
  FatBinary& binary = *found->second.binary;
  ParseBinary(binary);
  const auto named = binary.module.find(found->second.name);
  if (named == binary.module.end()) return cudaErrorInvalidPtx;
  const Kernel& kernel = named->second;
  Stream* const stream = Streams::Get().Find(handle);
  if (stream == nullptr) return cudaErrorInvalidResourceHandle;
  if (!IsValid(kernel, grid, block)) return cudaErrorInvalidConfiguration;
  if (shared_bytes != 0 || kernel.shared_bytes > kMostSharedBytes ||
      kernel.parameter_bytes > kMostParameterBytes) {
    return cudaErrorInvalidValue;
  }
  std::vector<std::byte> parameters(kernel.parameter_bytes);
  for (size_t i = 0; i < kernel.parameters.size(); ++i) {
    const Parameter& parameter = kernel.parameters[i];
    std::memcpy(&parameters[parameter.offset], arguments[i], parameter.size);
  }
  const Grid flat = {grid.x, block.x};
  return Streams::Get().Enqueue(*stream, [&kernel, flat, parameters = std::move(parameters)] {
    if (sticky_error == cudaSuccess) sticky_error = ErrorOf(RunKernel(kernel, flat, parameters));
  });
}

}  // namespace batchplan::ptx

// Functions called by the host code that nvcc generates; not all are declared in the runtime's
// headers.
extern "C" {

using batchplan::ptx::FatBinary;

void** __cudaRegisterFatBinary(void* wrapper) {
  struct Wrapper {
    int magic;
    int version;
    const char* data;
    void* unused;
  };
  // Never freed.
  return reinterpret_cast<void**>(new FatBinary{static_cast<const Wrapper*>(wrapper)->data});
}
void __cudaRegisterFatBinaryEnd(void** /*binary*/) {}
void __cudaUnregisterFatBinary(void** /*binary*/) {}
char __cudaInitModule(void** /*binary*/) { return 1; }

void __cudaRegisterFunction(void** binary, const char* stub, char* /*device_function*/,
                            const char* name, int /*thread_limit*/, uint3* /*tid*/, uint3* /*bid*/,
                            dim3* /*block*/, dim3* /*grid*/, int* /*warp_size*/) {
  batchplan::ptx::Stubs()[stub] = {reinterpret_cast<FatBinary*>(binary), name};
}
void __cudaRegisterVar(void** /*binary*/, char* /*host_variable*/, char* /*address*/,
                       const char* /*name*/, int /*is_extern*/, size_t /*size*/,
                       int /*is_constant*/, int /*is_global*/) {}

// The handle of a kernel is the address of its stub.
cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* stub) {
  *kernel = static_cast<cudaKernel_t>(const_cast<void*>(stub));
  return cudaSuccess;
}
cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void** arguments,
                               size_t shared_bytes, cudaStream_t stream) {
  return cudaLaunchKernel(kernel, grid, block, arguments, shared_bytes, stream);
}

// Called between <<<...>>> and the stub.
unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared_bytes,
                                     cudaStream_t stream) {
  batchplan::ptx::pushed = {grid, block, shared_bytes, stream};
  return 0;
}
cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, size_t* shared_bytes,
                                       void* stream) {
  *grid = batchplan::ptx::pushed.grid;
  *block = batchplan::ptx::pushed.block;
  *shared_bytes = batchplan::ptx::pushed.shared_bytes;
  *static_cast<cudaStream_t*>(stream) = batchplan::ptx::pushed.stream;
  return cudaSuccess;
}

}  // extern "C"
