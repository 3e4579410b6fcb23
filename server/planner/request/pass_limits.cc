#include "server/planner/request/pass_limits.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"

namespace batchplan {
namespace {

absl::StatusOr<std::vector<GroupLimits>> SizesOf(const Topology& topology, const PassOptions& pass,
                                                 absl::string_view where) {
  if (topology.dynamic_context) return GroupLimitsOf(topology, pass, where);
  const absl::StatusOr<uint32_t> multiple = LengthMultiple(topology, pass, where);
  if (!multiple.ok()) return multiple.status();
  absl::StatusOr<std::vector<uint32_t>> buckets =
      BucketsOf(topology, pass, topology.context_parallel, *multiple, where);
  if (!buckets.ok()) return buckets.status();
  return std::vector<GroupLimits>{{.ranks = topology.context_parallel,
                                   .multiple = *multiple,
                                   .capacity = AlignDown(pass.max_tokens_per_microbatch, *multiple),
                                   .buckets = *std::move(buckets)}};
}

LengthLimit LongestOf(const PlanOptions& options,
                      const std::vector<std::vector<GroupLimits>>& sizes) {
  constexpr uint32_t kWidest = std::numeric_limits<uint32_t>::max();
  LengthLimit limit{.alone = kWidest};
  for (size_t pass = 0; pass < sizes.size(); ++pass) {
    const GroupLimits& largest = sizes[pass].back();
    if (pass == 0 || largest.capacity < limit.length) {
      limit.length = largest.capacity;
      limit.pass = pass;
      if (options.topology.dynamic_context) limit.ranks = largest.ranks;
    }
    limit.alone = std::min(limit.alone, AlignDown(kWidest, largest.multiple));
  }
  return limit;
}

}  // namespace

absl::StatusOr<PassLimits> PassLimitsOf(const PlanOptions& options) {
  PassLimits limits;
  for (size_t i = 0; i < options.passes.size(); ++i) {
    absl::StatusOr<std::vector<GroupLimits>> sizes =
        SizesOf(options.topology, options.passes[i], absl::StrCat("passes[", i, "]"));
    if (!sizes.ok()) return sizes.status();
    limits.sizes.push_back(*std::move(sizes));
  }
  limits.longest = LongestOf(options, limits.sizes);
  return limits;
}

}  // namespace batchplan
