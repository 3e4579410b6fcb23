#include "server/planner/partition/karmarkar_karp.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <numeric>
#include <queue>
#include <set>
#include <tuple>
#include <utility>

#include "server/planner/partition/descending.h"

namespace batchplan {
namespace {

// One part of a partial solution. Its loads are a list that starts at `head`, which also tells
// parts of equal sum and count apart.
struct Part {
  uint64_t sum = 0;
  uint32_t count = 0;
  uint32_t head = 0;

  // Larger sums first.
  friend bool operator<(const Part& a, const Part& b) {
    return std::tuple(b.sum, b.count, a.head) < std::tuple(a.sum, a.count, b.head);
  }
};

// The loads of all parts as linked lists, so that joining two parts takes constant time.
class PartLists {
 public:
  explicit PartLists(size_t loads) : next_(loads), tail_(loads) {
    std::iota(next_.begin(), next_.end(), 0u);
    std::iota(tail_.begin(), tail_.end(), 0u);
  }

  Part Join(const Part& a, const Part& b) {
    next_[tail_[a.head]] = b.head;
    tail_[a.head] = tail_[b.head];
    return {.sum = a.sum + b.sum, .count = a.count + b.count, .head = a.head};
  }

  void Number(const Part& part, uint32_t number, std::vector<uint32_t>& part_of) const {
    for (uint32_t load = part.head;; load = next_[load]) {
      part_of[load] = number;
      if (load == tail_[part.head]) return;
    }
  }

 private:
  std::vector<uint32_t> next_;
  std::vector<uint32_t> tail_;
};

// A partial solution's place in the queue: the largest spread first, then the largest sum, then the
// oldest.
struct Entry {
  uint64_t spread = 0;
  uint64_t largest = 0;
  uint32_t solution = 0;

  friend bool operator<(const Entry& a, const Entry& b) {
    return std::tuple(a.spread, a.largest, b.solution) <
           std::tuple(b.spread, b.largest, a.solution);
  }
};

// A partial solution with parts of any count: those that hold a load, by descending sum.
using Solution = std::set<Part>;

uint64_t Spread(const Solution& solution, uint32_t parts) {
  const uint64_t smallest = solution.size() < parts ? 0 : solution.rbegin()->sum;
  return solution.begin()->sum - smallest;
}

// Joins the largest part of one with the smallest of the other, and so on: `small`'s largest parts
// take the empty places of `large`, the others, by descending sum, join its parts by ascending sum.
// Of `large`, only as many parts are touched as `small` has, so that all merges take O(n log n).
void Merge(Solution& large, Solution small, uint32_t parts, PartLists& lists) {
  const size_t empty = parts - large.size();
  std::vector<Solution::node_type> fresh;
  while (!small.empty() && fresh.size() < empty) {
    fresh.push_back(small.extract(small.begin()));
  }
  std::vector<Solution::node_type> joined;
  for (const Part& part : small) {
    joined.push_back(large.extract(std::prev(large.end())));
    joined.back().value() = lists.Join(joined.back().value(), part);
  }
  for (Solution::node_type& node : fresh) large.insert(std::move(node));
  for (Solution::node_type& node : joined) large.insert(std::move(node));
}

template <typename Parts>
std::vector<uint32_t> NumberParts(const Parts& parts, const PartLists& lists, size_t loads) {
  std::vector<uint32_t> part_of(loads);
  uint32_t number = 0;
  for (const Part& part : parts) lists.Number(part, number++, part_of);
  return part_of;
}

}  // namespace

std::vector<uint32_t> KarmarkarKarp(std::span<const uint64_t> loads, uint32_t parts) {
  if (loads.empty() || parts == 1) return std::vector<uint32_t>(loads.size(), 0);
  PartLists lists(loads.size());
  // A load alone is a solution whose spread is the load; those wait in an array of their own.
  const std::vector<uint32_t> order = DescendingOrder(loads);
  size_t next = 0;
  std::vector<Solution> solutions;
  std::priority_queue<Entry> queue;
  const auto pop = [&] {
    if (next < order.size() && (queue.empty() || loads[order[next]] >= queue.top().spread)) {
      const uint32_t load = order[next++];
      return Solution{{.sum = loads[load], .count = 1, .head = load}};
    }
    Solution top = std::move(solutions[queue.top().solution]);
    queue.pop();
    return top;
  };
  for (;;) {
    Solution large = pop();
    if (queue.empty() && next == order.size()) return NumberParts(large, lists, loads.size());
    Solution small = pop();
    if (large.size() < small.size()) std::swap(large, small);
    Merge(large, std::move(small), parts, lists);
    queue.push({.spread = Spread(large, parts),
                .largest = large.begin()->sum,
                .solution = static_cast<uint32_t>(solutions.size())});
    solutions.push_back(std::move(large));
  }
}

std::vector<uint32_t> KarmarkarKarpEqual(std::span<const uint64_t> loads, uint32_t parts) {
  if (loads.empty()) return {};
  PartLists lists(loads.size());
  // Each solution has `parts` parts of one count, by descending sum.
  std::vector<std::vector<Part>> solutions;
  std::priority_queue<Entry> queue;
  const auto push = [&](std::vector<Part> solution) {
    queue.push({.spread = solution.front().sum - solution.back().sum,
                .largest = solution.front().sum,
                .solution = static_cast<uint32_t>(solutions.size())});
    solutions.push_back(std::move(solution));
  };
  const std::vector<uint32_t> order = DescendingOrder(loads);
  for (size_t begin = 0; begin < order.size(); begin += parts) {
    std::vector<Part> solution;
    solution.reserve(parts);
    for (size_t i = begin; i < begin + parts; ++i) {
      solution.push_back({.sum = loads[order[i]], .count = 1, .head = order[i]});
    }
    push(std::move(solution));
  }
  const auto pop = [&] {
    std::vector<Part> top = std::move(solutions[queue.top().solution]);
    queue.pop();
    return top;
  };
  for (;;) {
    std::vector<Part> merged = pop();
    if (queue.empty()) return NumberParts(merged, lists, loads.size());
    const std::vector<Part> other = pop();
    for (uint32_t i = 0; i < parts; ++i) merged[i] = lists.Join(merged[i], other[parts - 1 - i]);
    std::sort(merged.begin(), merged.end());
    push(std::move(merged));
  }
}

}  // namespace batchplan
