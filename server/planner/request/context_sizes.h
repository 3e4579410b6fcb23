// The sizes that the groups of a pool of ranks may have (Topology.dynamic_context), and what a
// group of each size holds.

#ifndef BATCHPLAN_SERVER_PLANNER_REQUEST_CONTEXT_SIZES_H_
#define BATCHPLAN_SERVER_PLANNER_REQUEST_CONTEXT_SIZES_H_

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/planner/request/lengths.h"
#include "server/planner/request/options.h"

namespace batchplan {

// The ranks that slots divide: data_parallel * context_parallel.
inline uint64_t PoolOf(const Topology& topology) {
  return uint64_t{topology.data_parallel} * topology.context_parallel;
}

// The sizes of a topology with dynamic_context, ascending: powers of two from min_size to max_size,
// and the pool if max_size allows it. If min_size does not divide the pool, groups of these sizes
// never add up to it, and the pool is the only size. All sizes but the pool divide the rest of the
// pool beside larger groups, so that groups of descending sizes begin at multiples of their own.
// Empty if no size is possible.
std::vector<uint32_t> ContextSizes(const Topology& topology);

// InvalidArgument, naming field, value and limit, if the sizes of topology.dynamic_context are
// wrong, or if an option excludes, or needs, dynamic_context. The options are valid otherwise.
absl::Status CheckDynamicContext(const PlanOptions& options);

// The most tokens that a group holds, whatever its budget, so that lengths rounded up stay within
// the 32 bits of a row's width.
inline constexpr uint32_t kMaxGroupTokens = uint32_t{1} << 31;

// What a group of `ranks` ranks holds.
struct GroupLimits {
  uint32_t ranks = 1;
  // Lengths are rounded up to it.
  uint32_t multiple = 1;
  // The tokens of its budget: ranks * max_tokens_per_microbatch / context_parallel, at most
  // kMaxGroupTokens, rounded down to the multiple.
  uint32_t capacity = 0;
  // The widths of its rows, ascending, where they are padded to buckets: each of
  // PassOptions::buckets times ranks / context_parallel. Else empty.
  std::vector<uint32_t> buckets = {};

  // The most tokens of its row.
  uint32_t widest_row() const { return buckets.empty() ? capacity : buckets.back(); }
};

// The buckets of a group of `ranks` ranks that rounds lengths up to `multiple`. InvalidArgument,
// naming the field with `where`, if one is not a multiple of it or above kMaxGroupTokens.
absl::StatusOr<std::vector<uint32_t>> BucketsOf(const Topology& topology, const PassOptions& pass,
                                                uint32_t ranks, uint32_t multiple,
                                                absl::string_view where);

// The limits of the sizes that a pass can use, ascending. Sizes that hold no token are left out. If
// the others then can't add up to the pool, only the pool is left.
//
// InvalidArgument, naming the field with `where`, if no sizes of ContextSizes are left, and as by
// BucketsOf.
absl::StatusOr<std::vector<GroupLimits>> GroupLimitsOf(const Topology& topology,
                                                       const PassOptions& pass,
                                                       absl::string_view where);

// The multiple that a group of one rank rounds lengths up to, whether or not one is allowed. It
// divides the multiples of all GroupLimitsOf. REQUIRES: options for which GroupLimitsOf gives
// limits.
uint32_t LengthMultipleOfOne(const Topology& topology, const PassOptions& pass);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_REQUEST_CONTEXT_SIZES_H_
