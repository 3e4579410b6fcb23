#include "server/planner/partition/search_parts.h"

#include <algorithm>
#include <cstddef>
#include <tuple>
#include <utility>

#include "server/planner/partition/descending.h"

namespace batchplan {
namespace {

// Steps from one look at the stop token to the next; a power of two.
constexpr uint64_t kStepsPerLook = 1024;
// Of a step, and for each part.
constexpr uint64_t kUnitsAStep = 40;
constexpr uint64_t kUnitsAPart = 12;

class Search {
 public:
  Search(std::span<const uint64_t> loads, std::vector<uint32_t> part_of, uint32_t parts,
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
      // The best may have got better since.
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

  // Where the load may go, the lightest first; of parts that are alike, one.
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

}  // namespace

std::vector<uint32_t> SearchParts(std::span<const uint64_t> loads, std::vector<uint32_t> part_of,
                                  uint32_t parts, LoadsEach each, uint64_t bound, uint64_t steps,
                                  const Allowance& allowance) {
  SearchSteps search(allowance, steps, kUnitsAStep + kUnitsAPart * parts);
  return Search(loads, std::move(part_of), parts, each, bound, search.left, allowance).Run();
}

}  // namespace batchplan
