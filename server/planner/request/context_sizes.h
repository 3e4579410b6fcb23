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
// and the pool where max_size allows it; the pool alone where min_size does not divide it, since
// then groups of these sizes never add up to it. Every other size divides what is left of the pool
// beside larger ones, so that groups of descending sizes begin at multiples of their own. Empty: no
// size is possible.
std::vector<uint32_t> ContextSizes(const Topology& topology);

// InvalidArgument, naming field, value and limit, if the sizes of topology.dynamic_context are
// wrong, or if it is set, or unset, beside an option that can't be had then. Of options that are
// valid otherwise.
absl::Status CheckDynamicContext(const PlanOptions& options);

// The most tokens that a group holds, whatever its budget, so that lengths rounded up stay within
// the 32 bits of a row's width.
inline constexpr uint32_t kMaxGroupTokens = uint32_t{1} << 31;

// What a group of `ranks` ranks takes.
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

// Of the sizes that a pass can use, ascending. Those that hold no token are left out, and with them
// all but the pool where the others don't add up to it.
//
// InvalidArgument, naming the field with `where`, if no sizes of ContextSizes are left, and as by
// BucketsOf.
absl::StatusOr<std::vector<GroupLimits>> GroupLimitsOf(const Topology& topology,
                                                       const PassOptions& pass,
                                                       absl::string_view where);

// What a group of one rank rounds lengths up to, whether or not there may be one. Of options for
// which GroupLimitsOf gives limits, so that it divides every multiple there.
uint32_t LengthMultipleOfOne(const Topology& topology, const PassOptions& pass);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_REQUEST_CONTEXT_SIZES_H_
