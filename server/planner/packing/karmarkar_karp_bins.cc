#include "server/planner/packing/karmarkar_karp_bins.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <utility>
#include <vector>

#include "server/planner/packing/lower_bounds.h"
#include "server/planner/partition/descending.h"
#include "server/planner/partition/karmarkar_karp.h"

namespace batchplan {
namespace {

// Parts with room that are tried for one item before a division is given up.
constexpr int kMaxMisses = 64;

// Moves the lightest items out of overfull parts into others, the heaviest of them first. False if
// one finds no room; `part_of` is then of no use.
// `descending`: the order of the loads.
bool Repair(const PackItems& items, std::span<const uint64_t> loads,
            std::span<const uint32_t> descending, const BinLimits& limits, uint32_t parts,
            std::vector<uint32_t>& part_of) {
  // Keeping the heaviest items that fit leaves the lightest ones over.
  std::vector<BinRoom> rooms(parts, BinRoom(limits));
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

  std::set<std::pair<uint64_t, uint32_t>> lightest;  // (load, part)
  for (uint32_t part = 0; part < parts; ++part) lightest.emplace(load_of[part], part);
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

}  // namespace

Bins PackKarmarkarKarp(const PackItems& items, const BinLimits& limits, size_t at_least,
                       const Allowance& allowance) {
  if (items.size() == 0) return Bins();
  // Where nothing has a load, because a micro-batch costs the same whatever it holds, tokens are
  // what fills bins.
  const bool have_loads =
      std::any_of(items.loads.begin(), items.loads.end(), [](uint64_t load) { return load > 0; });
  std::vector<uint64_t> tokens;
  if (!have_loads) tokens.assign(items.lengths.begin(), items.lengths.end());
  const std::span<const uint64_t> loads = have_loads ? items.loads : tokens;

  const std::vector<uint32_t> descending = DescendingOrder(loads);
  std::vector<uint32_t> order(items.size());
  std::iota(order.begin(), order.end(), 0u);
  const auto most = static_cast<uint32_t>(items.size());
  const uint64_t bound = LowerBoundBins(items, limits);
  uint64_t parts = std::min<uint64_t>(most, std::max<uint64_t>(at_least, bound));
  for (uint64_t growth = std::max<uint64_t>(1, parts / 32);; growth *= 2) {
    std::vector<uint32_t> part_of =
        KarmarkarKarp(loads, descending, static_cast<uint32_t>(parts), allowance);
    if (allowance.stop_requested() ||
        Repair(items, loads, descending, limits, static_cast<uint32_t>(parts), part_of)) {
      return Bins(order, part_of, static_cast<uint32_t>(parts));
    }
    parts = std::min<uint64_t>(most, parts + growth);
  }
}

}  // namespace batchplan
