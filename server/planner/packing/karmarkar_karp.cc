#include "server/planner/packing/karmarkar_karp.h"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <optional>
#include <queue>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "server/planner/packing/limited_packers.h"
#include "server/planner/packing/limited_room.h"
#include "server/planner/packing/lower_bounds.h"
#include "server/planner/packing/orders.h"
#include "server/planner/packing/packer.h"

namespace batchplan {
namespace {

// Merges from one look for a stop to the next.
constexpr uint32_t kMergesPerLook = 4096;

// One part of a partial solution. Its loads are a list from `head` to `tail`; `head` also orders
// parts of equal sum and count.
struct Part {
  uint64_t sum = 0;
  uint32_t count = 0;
  uint32_t head = 0;
  uint32_t tail = 0;

  // Larger sums first.
  friend bool operator<(const Part& a, const Part& b) {
    if (a.sum != b.sum) return a.sum > b.sum;
    return std::tuple(b.count, a.head) < std::tuple(a.count, b.head);
  }
};

Part PartOf(uint32_t load, uint64_t sum) {
  return {.sum = sum, .count = 1, .head = load, .tail = load};
}

std::vector<uint64_t> Gather(std::span<const uint64_t> loads, std::span<const uint32_t> order) {
  std::vector<uint64_t> gathered(order.size());
  for (size_t i = 0; i < order.size(); ++i) gathered[i] = loads[order[i]];
  return gathered;
}

// The loads of all parts as linked lists, so that joining two parts takes constant time.
class PartLists {
 public:
  explicit PartLists(size_t loads) : next_(loads) {}

  Part Join(const Part& a, const Part& b) {
    next_[a.tail] = b.head;
    return {.sum = a.sum + b.sum, .count = a.count + b.count, .head = a.head, .tail = b.tail};
  }

  void Number(const Part& part, uint32_t number, std::vector<uint32_t>& part_of) const {
    for (uint32_t load = part.head; load != part.tail; load = next_[load]) part_of[load] = number;
    part_of[part.tail] = number;
  }

 private:
  std::vector<uint32_t> next_;
};

// A partial solution's place in the queue: the largest spread, the difference of its sums, first;
// then the largest sum, then the oldest.
struct Entry {
  uint64_t spread = 0;
  uint64_t largest = 0;
  uint32_t age = 0;
  uint32_t solution = 0;

  friend bool operator<(const Entry& a, const Entry& b) {
    if (a.spread != b.spread) return a.spread < b.spread;
    return std::tuple(a.largest, b.age) < std::tuple(b.largest, a.age);
  }
};

// A partial solution: the parts that have a load so far.
class Solution {
 public:
  void Assign(const Part& part) {
    parts_.assign(1, part);
    largest_ = part.sum;
  }

  size_t size() const { return parts_.size(); }
  uint64_t largest() const { return largest_; }
  uint64_t Spread(uint32_t parts) const {
    return parts_.size() < parts ? largest_ : largest_ - parts_.front().sum;
  }

  // Merges `other`, which has at most as many parts: its largest parts fill the empty places, the
  // rest, by descending sum, join the parts here by ascending sum. Once there are no empty places,
  // only a few parts for each part of `other` are touched, so that all merges together are O(n log
  // n). `other` is then useless.
  void Merge(Solution& other, uint32_t parts, PartLists& lists) {
    std::sort(other.parts_.begin(), other.parts_.end());
    const size_t fresh = std::min<size_t>(parts - size(), other.size());
    const size_t joined = other.size() - fresh;
    const std::span<const Part> rest = std::span(other.parts_).subspan(fresh);
    // To remove many of the smallest from a heap costs more than to sort it.
    const bool sort = joined > 0 && (fresh > 0 || 8 * joined > size());
    if (sort) {
      std::sort(parts_.begin(), parts_.end(), [](const Part& a, const Part& b) { return b < a; });
      for (size_t i = 0; i < joined; ++i) JoinTo(parts_[i], rest[i], lists);
    } else if (joined > 0) {
      const auto end = parts_.end() - static_cast<ptrdiff_t>(joined);
      for (auto last = parts_.end(); last != end; --last) std::pop_heap(parts_.begin(), last);
      for (size_t i = 0; i < joined; ++i) JoinTo(parts_[size() - 1 - i], rest[i], lists);
      for (auto last = end; last != parts_.end();) std::push_heap(parts_.begin(), ++last);
    }
    parts_.insert(parts_.end(), other.parts_.begin(),
                  other.parts_.begin() + static_cast<ptrdiff_t>(fresh));
    if (sort || (fresh > 0 && size() == parts)) std::make_heap(parts_.begin(), parts_.end());
    largest_ = std::max(largest_, other.largest_);
  }

  // By descending sum.
  std::vector<Part> Sorted() const {
    std::vector<Part> sorted = parts_;
    std::sort(sorted.begin(), sorted.end());
    return sorted;
  }

 private:
  void JoinTo(Part& part, const Part& other, PartLists& lists) {
    part = lists.Join(part, other);
    largest_ = std::max(largest_, part.sum);
  }

  // Unordered while there are empty places, then a heap with the smallest on top.
  std::vector<Part> parts_;
  uint64_t largest_ = 0;
};

std::vector<uint32_t> NumberParts(const std::vector<Part>& parts, const PartLists& lists,
                                  size_t loads) {
  std::vector<uint32_t> part_of(loads);
  uint32_t number = 0;
  for (const Part& part : parts) lists.Number(part, number++, part_of);
  return part_of;
}

}  // namespace

std::vector<uint32_t> KarmarkarKarp(std::span<const uint64_t> loads, uint32_t parts,
                                    const Allowance& allowance) {
  return KarmarkarKarp(loads, DescendingOrder(loads), parts, allowance);
}

std::vector<uint32_t> KarmarkarKarp(std::span<const uint64_t> loads,
                                    std::span<const uint32_t> descending, uint32_t parts,
                                    const Allowance& allowance) {
  if (loads.empty() || parts == 1) return std::vector<uint32_t>(loads.size(), 0);
  PartLists lists(loads.size());
  // A single load is a solution whose spread is the load; these wait in an array of their own.
  const std::vector<uint64_t> spreads = Gather(loads, descending);
  size_t next = 0;
  std::vector<Solution> solutions;
  std::vector<uint32_t> unused;  // numbers of solutions that have been merged into others
  std::priority_queue<Entry> queue;
  // The result of the last merge, which is mostly the next to be popped.
  std::optional<Entry> merged;
  const auto pop = [&] {
    const bool first = merged && (queue.empty() || queue.top() < *merged);
    const Entry* top = first ? &*merged : queue.empty() ? nullptr : &queue.top();
    if (top != nullptr && (next == descending.size() || spreads[next] < top->spread)) {
      const uint32_t solution = top->solution;
      first ? merged.reset() : queue.pop();
      return solution;
    }
    if (unused.empty()) {
      unused.push_back(static_cast<uint32_t>(solutions.size()));
      solutions.emplace_back();
    }
    const uint32_t solution = unused.back();
    unused.pop_back();
    solutions[solution].Assign(PartOf(descending[next], spreads[next]));
    ++next;
    return solution;
  };
  for (uint32_t age = 0;; ++age) {
    if (age % kMergesPerLook == 0 && allowance.stop_requested()) {
      return std::vector<uint32_t>(loads.size(), 0);
    }
    uint32_t large = pop();
    if (!merged && queue.empty() && next == descending.size()) {
      return NumberParts(solutions[large].Sorted(), lists, loads.size());
    }
    uint32_t small = pop();
    if (solutions[large].size() < solutions[small].size()) std::swap(large, small);
    solutions[large].Merge(solutions[small], parts, lists);
    unused.push_back(small);
    if (merged) queue.push(*merged);
    merged = {.spread = solutions[large].Spread(parts),
              .largest = solutions[large].largest(),
              .age = age,
              .solution = large};
  }
}

std::vector<uint32_t> KarmarkarKarpEqual(std::span<const uint64_t> loads, uint32_t parts,
                                         const Allowance& allowance) {
  if (loads.empty()) return {};
  // Loads of 0 fill the last round, so that no part has two of them.
  const size_t all = (loads.size() + parts - 1) / parts * parts;
  PartLists lists(all);
  // Each solution has `parts` parts of one count, by descending sum.
  std::vector<std::vector<Part>> solutions;
  std::priority_queue<Entry> queue;
  const auto push = [&](std::vector<Part> solution) {
    queue.push({.spread = solution.front().sum - solution.back().sum,
                .largest = solution.front().sum,
                .age = static_cast<uint32_t>(solutions.size()),
                .solution = static_cast<uint32_t>(solutions.size())});
    solutions.push_back(std::move(solution));
  };
  std::vector<uint32_t> order = DescendingOrder(loads);
  order.reserve(all);
  for (size_t i = loads.size(); i < all; ++i) order.push_back(static_cast<uint32_t>(i));
  for (size_t begin = 0; begin < order.size(); begin += parts) {
    std::vector<Part> solution;
    solution.reserve(parts);
    for (size_t i = begin; i < begin + parts; ++i) {
      solution.push_back(PartOf(order[i], i < loads.size() ? loads[order[i]] : 0));
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
    if (allowance.stop_requested()) return std::vector<uint32_t>(loads.size(), 0);
    if (queue.empty()) {
      std::vector<uint32_t> part_of = NumberParts(merged, lists, all);
      part_of.resize(loads.size());
      return part_of;
    }
    const std::vector<Part> other = pop();
    for (uint32_t i = 0; i < parts; ++i) merged[i] = lists.Join(merged[i], other[parts - 1 - i]);
    std::sort(merged.begin(), merged.end());
    push(std::move(merged));
  }
}

namespace {

// After this many parts with room that do not hold an item, a division is given up.
constexpr int kMaxMisses = 64;

// Places homeless items, each in the least loaded part with room. False if an item finds none.
bool PlaceHomeless(const PackItems& items, std::span<const uint64_t> loads,
                   std::span<const uint32_t> homeless, std::vector<BinRoom> rooms,
                   std::vector<uint64_t> load_of, std::vector<uint32_t>& part_of) {
  std::set<std::pair<uint64_t, uint32_t>> lightest;  // (load, part)
  for (uint32_t part = 0; part < rooms.size(); ++part) lightest.emplace(load_of[part], part);
  for (uint32_t item : homeless) {
    auto found = lightest.begin();
    for (int misses = 0; !rooms[found->second].Holds(items, item);) {
      if (++found == lightest.end() || ++misses > kMaxMisses) return false;
    }
    const uint32_t part = found->second;
    lightest.erase(found);
    rooms[part].Take(items, item);
    load_of[part] += loads[item];
    lightest.emplace(load_of[part], part);
    part_of[item] = part;
  }
  return true;
}

// With limited loads the least loaded parts may lack room for any item: then the others are tried
// in turn.
bool PlaceHomeless(const PackItems& items, std::span<const uint64_t> loads,
                   std::span<const uint32_t> homeless, std::vector<LimitedRoom> rooms,
                   std::vector<uint64_t> load_of, std::vector<uint32_t>& part_of) {
  std::set<std::pair<uint64_t, uint32_t>> lightest;  // (load, part)
  for (uint32_t part = 0; part < rooms.size(); ++part) lightest.emplace(load_of[part], part);
  LimitedRooms left(items, std::move(rooms));
  size_t next = 0;
  for (uint32_t item : homeless) {
    size_t part = left.size();
    auto found = lightest.begin();
    for (int tried = 0; tried <= kMaxMisses && found != lightest.end(); ++tried, ++found) {
      if (!left[found->second].Holds(items, item)) continue;
      part = found->second;
      break;
    }
    if (part == left.size()) {
      part = left.FirstThatHolds(next, item);
      if (part == left.size()) part = left.FirstThatHolds(0, item);
      if (part == left.size()) return false;
      next = part + 1;
    }
    const auto number = static_cast<uint32_t>(part);
    lightest.erase({load_of[part], number});
    left.Take(part, item);
    load_of[part] += loads[item];
    lightest.emplace(load_of[part], number);
    part_of[item] = number;
  }
  return true;
}

// Moves the lightest items of overfull parts into others, the heaviest of these items first. False,
// with a useless `part_of`, if an item finds no room. `descending` is the order of the loads,
// `empty` a part without items, a BinRoom or LimitedRoom.
template <typename Room>
bool Repair(const PackItems& items, std::span<const uint64_t> loads,
            std::span<const uint32_t> descending, const Room& empty, uint32_t parts,
            std::vector<uint32_t>& part_of) {
  // Keeps the heaviest items that fit, so that the lightest are left over.
  std::vector<Room> rooms(parts, empty);
  std::vector<uint64_t> load_of(parts, 0);
  std::vector<uint32_t> homeless;
  for (uint32_t item : descending) {
    const uint32_t part = part_of[item];
    if (rooms[part].Holds(items, item)) {
      rooms[part].Take(items, item);
      load_of[part] += loads[item];
    } else {
      homeless.push_back(item);
    }
  }
  if (homeless.empty()) return true;
  return PlaceHomeless(items, loads, homeless, std::move(rooms), std::move(load_of), part_of);
}

}  // namespace

Bins PackKarmarkarKarp(const PackItems& items, const BinLimits& limits, size_t at_least,
                       const Allowance& allowance) {
  if (items.size() == 0) return Bins();
  // If no item has a load, because a micro-batch costs the same whatever it holds, bins are filled
  // by tokens.
  const bool have_loads =
      std::any_of(items.loads.begin(), items.loads.end(), [](uint64_t load) { return load > 0; });
  std::vector<uint64_t> tokens;
  if (!have_loads) tokens.assign(items.lengths.begin(), items.lengths.end());
  const std::span<const uint64_t> loads = have_loads ? items.loads : tokens;

  const std::vector<uint32_t> descending = DescendingOrder(loads);
  std::vector<uint32_t> order(items.size());
  std::iota(order.begin(), order.end(), 0u);
  const auto most = static_cast<uint32_t>(items.size());
  const auto divide = [&](uint64_t parts) -> std::optional<Bins> {
    const auto count = static_cast<uint32_t>(parts);
    std::vector<uint32_t> part_of = KarmarkarKarp(loads, descending, count, allowance);
    const auto repair = [&](const auto& empty) {
      return Repair(items, loads, descending, empty, count, part_of);
    };
    const bool done =
        allowance.stop_requested() ||
        (items.limited.empty() ? repair(BinRoom(limits)) : repair(LimitedRoom(items, limits)));
    return done ? std::optional(Bins(order, part_of, count)) : std::nullopt;
  };
  // Mostly the simplest bounds are met, and then no other is higher.
  const uint64_t simplest = std::min<uint64_t>(
      most, std::max({uint64_t{at_least}, VolumeBound(items.lengths, limits.capacity),
                      CountBound(items, limits), LoadVolumeBound(items.limited)}));
  if (std::optional<Bins> bins = divide(simplest)) return *std::move(bins);
  // No bound exceeds the bins of another packing. With counts that packing may be slow.
  const uint64_t enough =
      items.counts.empty() ? PackFirstFitDecreasing(items, limits).size() : most;
  const uint64_t bound = std::min<uint64_t>(most, LowerBoundBins(items, limits, enough));
  uint64_t parts = std::max(simplest, bound);
  for (uint64_t growth = std::max<uint64_t>(1, parts / 32);; growth *= 2) {
    if (parts > simplest) {
      if (std::optional<Bins> bins = divide(parts)) return *std::move(bins);
    }
    parts = std::min<uint64_t>(most, parts + growth);
  }
}

}  // namespace batchplan
