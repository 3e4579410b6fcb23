// Runs the packed layout on any backend and brings the results back to the host.
//
//   const LayoutResult result = RunLayout(BATCHPLAN_BACKEND_CUDA, {2, 4, 6, 1}, options);
//
// For one thread.

#ifndef BATCHPLAN_TESTS_KERNELS_LAYOUT_RUNNER_H_
#define BATCHPLAN_TESTS_KERNELS_LAYOUT_RUNNER_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "batchplan/kernels.h"
#include "memory.h"

namespace batchplan::kernels {

struct LayoutResult {
  // The error that the call returned; otherwise the error word after it.
  batchplan_status status = BATCHPLAN_OK;
  // The error word after the call.
  batchplan_status error_word = BATCHPLAN_OK;
  std::vector<int32_t> cu_seqlens;
  std::vector<int32_t> cu_seqlens_padded;
  std::vector<int32_t> cu_seqlens_padded_per_rank;
  int32_t max_seqlen = 0;
  int32_t max_seqlen_padded = 0;
  std::vector<int32_t> cu_new;
  std::vector<int32_t> least_shared;
  std::vector<int32_t> subtree_end;
};

// `initial_error` is the error word before the call. Without `shared`, no prefixes are shared; with
// it, subtree_end is computed too.
LayoutResult RunLayout(batchplan_backend backend, const std::vector<uint32_t>& lengths,
                       const batchplan_layout_options& options,
                       batchplan_status initial_error = BATCHPLAN_OK,
                       const std::optional<std::vector<uint32_t>>& shared = std::nullopt);

// A suite of layouts that runs on every backend.
class EveryBackendLayoutTest : public EveryBackendTest {
 protected:
  static LayoutResult Run(const std::vector<uint32_t>& lengths,
                          const batchplan_layout_options& options,
                          batchplan_status initial_error = BATCHPLAN_OK) {
    return RunLayout(GetParam(), lengths, options, initial_error);
  }
  static LayoutResult RunShared(const std::vector<uint32_t>& lengths,
                                const std::vector<uint32_t>& shared,
                                const batchplan_layout_options& options) {
    return RunLayout(GetParam(), lengths, options, BATCHPLAN_OK, shared);
  }
};

}  // namespace batchplan::kernels

#endif  // BATCHPLAN_TESTS_KERNELS_LAYOUT_RUNNER_H_
