#include "server/planner/assign/equal_counts.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <utility>

#include "server/planner/packing/fewest_bins.h"
#include "server/planner/packing/orders.h"

namespace batchplan {
namespace {

using Lightest = std::set<std::pair<uint64_t, uint32_t>>;  // (load, part)

// Looks at parts without room: each is one step along a tree.
constexpr uint64_t kMaxLooks = 1'000'000;
constexpr uint64_t kTicksALook = 20;
constexpr uint64_t kLeastLooksEach = 16;
// Units times their different counts up to which a division into given counts is made even too.
constexpr uint64_t kMostToEvenOut = 20'000'000;

// Each unit to the lightest part with room for it; nothing if there is none, or if those without
// room are too many to look at.
std::optional<std::vector<uint32_t>> LightestWithRoom(std::span<const uint64_t> loads,
                                                      std::span<const uint32_t> counts,
                                                      uint32_t parts, uint64_t each,
                                                      const Allowance& allowance) {
  SearchSteps search(allowance, kMaxLooks + kLeastLooksEach * loads.size(), kTicksALook,
                     kLeastLooksEach * loads.size());
  Lightest lightest;
  for (uint32_t part = 0; part < parts; ++part) lightest.emplace(0, part);
  std::vector<uint64_t> room(parts, each);
  std::vector<uint32_t> part_of(loads.size());
  for (uint32_t unit : DescendingOrder(loads)) {
    auto found = lightest.begin();
    for (; found != lightest.end() && room[found->second] < counts[unit]; ++found) {
      if (search.left == 0) return std::nullopt;
      --search.left;
    }
    if (found == lightest.end() || allowance.stop_requested()) return std::nullopt;
    const auto [load, part] = *found;
    lightest.erase(found);
    part_of[unit] = part;
    room[part] -= counts[unit];
    if (room[part] > 0) lightest.emplace(load + loads[unit], part);
  }
  return part_of;
}

}  // namespace

std::optional<std::vector<uint32_t>> PartsOfEqualCount(std::span<const uint64_t> loads,
                                                       std::span<const uint32_t> counts,
                                                       uint32_t parts, const Allowance& allowance) {
  const uint64_t total = std::accumulate(counts.begin(), counts.end(), uint64_t{0});
  const uint64_t each = total / parts;
  if (auto part_of = LightestWithRoom(loads, counts, parts, each, allowance)) return part_of;
  if (counts.empty() || *std::max_element(counts.begin(), counts.end()) > each) return std::nullopt;

  // With the searches whatever the effort: without a division the request fails.
  const std::optional<Bins> pattern =
      PackInto({.lengths = counts}, {.capacity = static_cast<uint32_t>(each)}, parts,
               Effort::kDefault, allowance);
  if (!pattern) return std::nullopt;
  // Which parts still take a unit of some count, and how many such units.
  std::map<uint32_t, std::vector<uint32_t>> wanted;
  for (uint32_t part = 0; part < parts; ++part) {
    for (uint32_t unit : (*pattern)[part]) {
      std::vector<uint32_t>& left = wanted[counts[unit]];
      left.resize(parts, 0);
      ++left[part];
    }
  }
  std::map<uint32_t, Lightest> takers;
  for (const auto& [count, left] : wanted) {
    for (uint32_t part = 0; part < parts; ++part) {
      if (left[part] > 0) takers[count].emplace(0, part);
    }
  }
  const bool even_out = loads.size() * takers.size() <= kMostToEvenOut;
  std::vector<uint64_t> load_of(parts, 0);
  std::vector<uint32_t> part_of(loads.size());
  for (uint32_t unit : DescendingOrder(loads)) {
    if (allowance.stop_requested()) return std::nullopt;
    Lightest& mine = takers[counts[unit]];
    const uint32_t part = mine.begin()->second;
    part_of[unit] = part;
    const bool last = --wanted[counts[unit]][part] == 0;
    if (!even_out) {
      if (last) mine.erase(mine.begin());
      continue;
    }
    for (auto& [count, lightest] : takers) lightest.erase({load_of[part], part});
    load_of[part] += loads[unit];
    for (const auto& [count, left] : wanted) {
      if (left[part] > 0) takers[count].emplace(load_of[part], part);
    }
  }
  return part_of;
}

}  // namespace batchplan
