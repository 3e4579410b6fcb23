// Multiway number partitioning, as far as the effort goes.
//
// Longest processing time first (with equal counts, layers dealt in turn) is a start that is often
// within the tolerance. If not, up to two items of the largest part are exchanged for up to two of
// another (exchange_search.h). If that is not enough: the differencing method of Karmarkar and Karp
// as a second start, for up to a thousand items, and for a few dozen a depth-first search that is
// exact if its steps suffice. The bound is the largest of: the mean; what the k * parts + 1
// costliest items force, as some part has k + 1 of them; and the costliest item with the fewest
// others of a part.

#include "server/planner/balance/even_parts.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "server/planner/balance/exchange_search.h"
#include "server/planner/balance/longest_first.h"
#include "server/planner/packing/even_counts.h"
#include "server/planner/packing/karmarkar_karp.h"
#include "server/planner/packing/orders.h"
#include "server/planner/request/allowance.h"

namespace batchplan {

uint64_t LargestSumBound(std::span<const uint64_t> descending_loads, uint32_t parts,
                         uint64_t least_each) {
  const size_t size = descending_loads.size();
  if (size == 0) return 0;
  const auto sum = [&](size_t begin, size_t end) {
    return std::accumulate(descending_loads.begin() + static_cast<std::ptrdiff_t>(begin),
                           descending_loads.begin() + static_cast<std::ptrdiff_t>(end),
                           uint64_t{0});
  };
  const uint64_t others = std::clamp<uint64_t>(least_each, 1, size) - 1;
  uint64_t bound =
      std::max((sum(0, size) + parts - 1) / parts, descending_loads[0] + sum(size - others, size));
  // The sums of the k * parts + 1 costliest loads, and of these without their k + 1 cheapest.
  uint64_t all = descending_loads[0];
  uint64_t costlier = 0;
  for (size_t k = 1; k * parts < size; ++k) {
    all += sum((k - 1) * parts + 1, k * parts + 1);
    costlier += sum((k - 1) * (parts - 1), k * (parts - 1));
    bound = std::max(bound, all - costlier);
  }
  return bound;
}

namespace {

// How many loads a part may have.
struct LoadsEach {
  uint64_t least = 0;
  uint64_t most = 0;
};

// Steps from one look at the stop token to the next; a power of two.
constexpr uint64_t kStepsPerLook = 1024;
// Ticks to place a load, and on top for each part.
constexpr uint64_t kTicksAPlacement = 40;
constexpr uint64_t kTicksAPart = 12;

class PartSearch {
 public:
  PartSearch(std::span<const uint64_t> loads, std::vector<uint32_t> part_of, uint32_t parts,
             LoadsEach each, uint64_t bound, uint64_t& steps, const Allowance& allowance)
      : loads_(loads),
        order_(DescendingOrder(loads)),
        each_(each),
        bound_(bound),
        steps_(steps),
        allowance_(allowance),
        parts_(parts),
        needed_(parts * each.least),
        part_of_(part_of),
        best_(std::move(part_of)) {
    for (size_t i = 0; i < loads.size(); ++i) {
      left_ += loads[i];
      parts_[best_[i]].sum += loads[i];
    }
    for (Part& part : parts_) {
      least_ = std::max(least_, part.sum);
      part.sum = 0;
    }
  }

  std::vector<uint32_t> Run() {
    if (least_ > bound_) Place(0);
    return std::move(best_);
  }

 private:
  struct Part {
    uint64_t sum = 0;
    uint64_t count = 0;

    friend bool operator==(const Part&, const Part&) = default;
  };

  bool Done() const { return steps_ == 0 || least_ <= bound_; }

  void Place(size_t depth) {
    if (depth == order_.size()) {
      best_ = part_of_;
      least_ = 0;
      for (const Part& part : parts_) least_ = std::max(least_, part.sum);
      return;
    }
    const uint32_t load = order_[depth];
    for (const uint32_t part : PartsFor(depth)) {
      if (Done()) return;
      Part& into = parts_[part];
      // The best partition may have improved since the candidates were chosen.
      if (into.sum + loads_[load] >= least_) return;
      --steps_;
      if (steps_ % kStepsPerLook == 0 && allowance_.stop_requested()) steps_ = 0;
      const bool needy = into.count < each_.least;
      needed_ -= needy;
      left_ -= loads_[load];
      into.sum += loads_[load];
      ++into.count;
      part_of_[load] = part;
      Place(depth + 1);
      --into.count;
      into.sum -= loads_[load];
      left_ += loads_[load];
      needed_ += needy;
    }
  }

  // The parts where the load may go, the lightest first; one of parts that are alike.
  std::vector<uint32_t> PartsFor(size_t depth) const {
    const uint64_t load = loads_[order_[depth]];
    const bool only_needy = order_.size() - depth == needed_;
    std::vector<uint32_t> candidates;
    uint64_t room = 0;
    for (uint32_t part = 0; part < parts_.size(); ++part) {
      const Part& into = parts_[part];
      if (into.count < each_.most) room += least_ - 1 - std::min(into.sum, least_ - 1);
      if (into.count >= each_.most || into.sum + load >= least_) continue;
      if (only_needy && into.count >= each_.least) continue;
      candidates.push_back(part);
    }
    if (room < left_) return {};
    std::sort(candidates.begin(), candidates.end(), [&](uint32_t a, uint32_t b) {
      return std::tuple(parts_[a].sum, parts_[a].count, a) <
             std::tuple(parts_[b].sum, parts_[b].count, b);
    });
    const auto alike = [&](uint32_t a, uint32_t b) { return parts_[a] == parts_[b]; };
    candidates.erase(std::unique(candidates.begin(), candidates.end(), alike), candidates.end());
    return candidates;
  }

  const std::span<const uint64_t> loads_;
  const std::vector<uint32_t> order_;
  const LoadsEach each_;
  const uint64_t bound_;
  uint64_t& steps_;
  const Allowance& allowance_;
  std::vector<Part> parts_;
  uint64_t needed_;    // loads that parts lack
  uint64_t left_ = 0;  // load not placed
  std::vector<uint32_t> part_of_;
  std::vector<uint32_t> best_;
  uint64_t least_ = 0;  // largest sum of the best
};

// Looks for a partition with a lower largest sum than that of `part_of`, exhaustively: depth first,
// the loads in descending order, each into the lightest part first. Leaves a branch whose largest
// sum can't fall below the best so far, and ends once that is at most `bound` (R. E. Korf, "A
// complete anytime algorithm for number partitioning", 1998). Returns the best partition found
// within `steps` placements, or `part_of`; the optimum if the steps suffice, as they do for a dozen
// loads. Ends early with the allowance. Needs a total below 2^62. Deterministic; O(steps * parts
// log parts).
std::vector<uint32_t> SearchParts(std::span<const uint64_t> loads, std::vector<uint32_t> part_of,
                                  uint32_t parts, LoadsEach each, uint64_t bound, uint64_t steps,
                                  const Allowance& allowance) {
  SearchSteps search(allowance, steps, kTicksAPlacement + kTicksAPart * parts);
  return PartSearch(loads, std::move(part_of), parts, each, bound, search.left, allowance).Run();
}

// For more loads, the differencing method is slower than exchanges.
constexpr size_t kMostForDifferencing = 1024;
// For more loads, a search of a few thousand steps rarely finds anything.
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
  if (options.equal_counts) {
    const EvenCounts even(loads.size(), parts);
    each = {.least = even.least, .most = even.most()};
  }

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
