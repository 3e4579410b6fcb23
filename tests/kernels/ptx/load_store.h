// Loads, stores and atomics of a launch: where they go, and whether that is allowed.

#ifndef BATCHPLAN_TESTS_KERNELS_PTX_LOAD_STORE_H_
#define BATCHPLAN_TESTS_KERNELS_PTX_LOAD_STORE_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ptx/executor.h"
#include "ptx/findings.h"
#include "ptx/races.h"
#include "ptx/thread_block.h"

namespace batchplan::ptx {

class LoadStore {
 public:
  LoadStore(const Kernel& kernel, const std::vector<std::byte>& parameters,
            const LaunchOptions& options, LaunchFindings& findings)
      : kernel_(kernel), parameters_(parameters), options_(options), findings_(findings) {}

  // Each runs instruction `at` for a thread of the block.
  Fault Load(ThreadBlock& block, uint32_t thread, uint32_t at);
  Fault Store(ThreadBlock& block, uint32_t thread, uint32_t at);
  Fault Atomic(ThreadBlock& block, uint32_t thread, uint32_t at);
  // A fence for the whole device.
  void Fence(const ThreadBlock& block);

 private:
  struct Located {
    // Where the host can access it.
    std::byte* data = nullptr;
    Fault fault = Fault::kNone;
  };

  template <typename T>
  void AtomicOf(ThreadBlock& block, uint32_t thread, uint32_t at, std::byte* where);
  Located Locate(ThreadBlock& block, uint32_t thread, uint32_t at, bool writes);
  std::byte* Find(ThreadBlock& block, uint32_t thread, uint32_t at, Space space, uint64_t address,
                  bool writes);
  void Report(const std::optional<Conflict>& conflict, const Access& access, uint32_t at,
              Space space, uint64_t address);
  std::string Describe(Space space, uint64_t address) const;

  const Kernel& kernel_;
  const std::vector<std::byte>& parameters_;
  const LaunchOptions& options_;
  LaunchFindings& findings_;
  GlobalRaces global_races_;
};

}  // namespace batchplan::ptx

#endif  // BATCHPLAN_TESTS_KERNELS_PTX_LOAD_STORE_H_
