#include "server/planner/partition/even_parts.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <utility>

#include "server/planner/partition/descending.h"
#include "server/planner/partition/karmarkar_karp.h"
#include "server/planner/partition/layers.h"
#include "server/planner/partition/longest_first.h"
#include "server/planner/partition/part_bound.h"
#include "server/planner/partition/refine.h"
#include "server/planner/partition/search_parts.h"

namespace batchplan {
namespace {

// Beyond, the differencing method takes longer than exchanges do.
constexpr size_t kMostForDifferencing = 1024;
// Beyond, a search of a few thousand steps rarely finds anything.
constexpr size_t kMostForSearch = 64;

uint64_t LargestSum(std::span<const uint64_t> loads, std::span<const uint32_t> part_of,
                    uint32_t parts) {
  std::vector<uint64_t> sums(parts, 0);
  for (size_t i = 0; i < loads.size(); ++i) sums[part_of[i]] += loads[i];
  return *std::max_element(sums.begin(), sums.end());
}

uint64_t StepsToSearch(Effort effort) {
  switch (effort) {
    case Effort::kFast:
      return 1'000;
    case Effort::kDefault:
      return 10'000;
    case Effort::kThorough:
      return 1'000'000;
  }
  return 0;
}

bool HasEnough(std::span<const uint32_t> part_of, uint32_t parts, uint64_t least_each) {
  std::vector<uint64_t> counts(parts, 0);
  for (uint32_t part : part_of) ++counts[part];
  return *std::min_element(counts.begin(), counts.end()) >= least_each;
}

}  // namespace

uint64_t EvenTolerance(uint64_t bound, Effort effort) {
  switch (effort) {
    case Effort::kFast:
      return bound >> 11;
    case Effort::kDefault:
      return bound >> 16;
    case Effort::kThorough:
      return 0;
  }
  return 0;
}

uint64_t RefineSteps(uint64_t loads, Effort effort) {
  switch (effort) {
    case Effort::kFast:
      return 20'000 + 4 * loads;
    case Effort::kDefault:
      return 200'000 + 16 * loads;
    case Effort::kThorough:
      return 10'000'000 + 64 * loads;
  }
  return 0;
}

std::vector<uint32_t> EvenParts(std::span<const uint64_t> loads, uint32_t parts,
                                const EvenPartsOptions& options) {
  if (loads.empty() || parts == 1) return std::vector<uint32_t>(loads.size(), 0);
  LoadsEach each = {.least = options.least_each, .most = std::numeric_limits<uint64_t>::max()};
  if (options.equal_counts) each = {.least = loads.size() / parts, .most = loads.size() / parts};

  const std::vector<uint32_t> order = DescendingOrder(loads);
  std::vector<uint64_t> descending(loads.size());
  for (size_t i = 0; i < order.size(); ++i) descending[i] = loads[order[i]];
  const uint64_t bound = LargestSumBound(descending, parts, each.least);
  const uint64_t goal = bound + EvenTolerance(bound, options.effort);

  std::vector<uint32_t> best =
      options.equal_counts ? DealLayers(loads, order, parts)
                           : LongestFirst(loads, parts, each.most, each.least, options.allowance);
  uint64_t largest = LargestSum(loads, best, parts);
  const RefineRules rules = {.equal_counts = options.equal_counts,
                             .least_each = options.least_each};
  const auto refine = [&](std::vector<uint32_t> start) {
    start = RefineParts(loads, std::move(start), parts, rules, goal,
                        RefineSteps(loads.size(), options.effort), options.allowance);
    const uint64_t sum = LargestSum(loads, start, parts);
    if (sum >= largest) return;
    largest = sum;
    best = std::move(start);
  };
  const auto is_over = [&] {
    return largest <= goal || options.allowance.spent() || options.allowance.stop_requested();
  };
  if (!is_over()) refine(best);
  if (!is_over() && loads.size() <= kMostForDifferencing) {
    std::vector<uint32_t> start = options.equal_counts
                                      ? KarmarkarKarpEqual(loads, parts, options.allowance)
                                      : KarmarkarKarp(loads, parts, options.allowance);
    if (HasEnough(start, parts, each.least)) refine(std::move(start));
  }
  if (!is_over() && loads.size() <= kMostForSearch) {
    best = SearchParts(loads, std::move(best), parts, each, goal, StepsToSearch(options.effort),
                       options.allowance);
  }
  return best;
}

}  // namespace batchplan
