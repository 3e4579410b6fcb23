#include "server/planner/rows/band_starts.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <numeric>
#include <span>
#include <utility>

namespace batchplan {
namespace {

// The time of an item's phases; for a dealt load, that of its largest part.
double OfPhases(const RowItems& items, uint32_t item) {
  double sum = 0;
  const std::span<const SearchedLoad> searched = items.searched_loads();
  for (size_t load = 0; load < searched.size(); ++load) {
    if (searched[load].per_unit == 0) continue;
    sum += searched[load].per_unit *
           (searched[load].dealt ? items.largest(item)[load] : items.loads(item)[load]);
  }
  return sum;
}

// Items in the order asked for.
std::vector<uint32_t> InOrder(const RowItems& items, BandOrder order) {
  std::vector<std::pair<double, double>> keys;
  keys.reserve(items.size());
  for (uint32_t item = 0; item < items.size(); ++item) {
    const double phases = OfPhases(items, item);
    keys.emplace_back(order == BandOrder::kByPhases ? phases
                      : phases > 0                  ? 1
                                                    : 0,
                      items.cost(item));
  }
  std::vector<uint32_t> sorted(items.size());
  std::iota(sorted.begin(), sorted.end(), 0u);
  std::ranges::stable_sort(sorted, std::greater<>(), [&](uint32_t item) { return keys[item]; });
  return sorted;
}

// The cheapest row of a slot with room; null if there is none.
Row* RowFor(const RowItems& items, const RowTerms& terms, std::span<Row> rows, uint32_t slot,
            uint32_t item) {
  Row* best = nullptr;
  double least = std::numeric_limits<double>::infinity();
  for (uint32_t rank = 0; rank < terms.ranks; ++rank) {
    Row& row = rows[size_t{rank} * terms.slots + slot];
    const double cost = CostWithPhases(items, row);
    if (cost >= least) continue;
    const bool has_room =
        row.items.empty() || (row.tokens + items.tokens(item) <= terms.capacity &&
                              row.sequences + items.count(item) <= terms.max_sequences &&
                              HasRoomForLoads(items, row, items.loads(item)));
    if (!has_room) continue;
    best = &row;
    least = cost;
  }
  return best;
}

}  // namespace

std::optional<std::vector<Row>> FillBands(const RowItems& items, const RowTerms& terms,
                                          BandOrder order) {
  const std::vector<uint32_t> sorted = InOrder(items, order);
  uint64_t left = 0;
  for (uint32_t item = 0; item < items.size(); ++item) left += items.tokens(item);
  std::vector<Row> rows(size_t{terms.ranks} * terms.slots);
  std::vector<uint32_t> band;
  size_t next = 0;
  for (uint32_t slot = 0; slot < terms.slots; ++slot) {
    const uint64_t share = left / (terms.slots - slot);
    uint64_t tokens = 0;
    for (const uint32_t item : band) tokens += items.tokens(item);
    while (next < sorted.size() && (tokens < share || slot + 1 == terms.slots)) {
      tokens += items.tokens(sorted[next]);
      band.push_back(sorted[next++]);
    }
    std::ranges::stable_sort(band, std::greater<>(),
                             [&](uint32_t item) { return items.cost(item); });
    std::vector<uint32_t> without_room;
    for (const uint32_t item : band) {
      Row* const row = RowFor(items, terms, rows, slot, item);
      if (row == nullptr) {
        without_room.push_back(item);
        continue;
      }
      AddTo(items, {&item, 1}, *row);
      left -= items.tokens(item);
    }
    band = std::move(without_room);
  }
  const bool some_empty =
      std::ranges::any_of(rows, [](const Row& row) { return row.items.empty(); });
  if (!band.empty() || (some_empty && !terms.may_empty)) return std::nullopt;
  for (uint32_t slot = 0; slot < terms.slots; ++slot) {
    if (!DealsWithin(items, terms, rows, slot, {})) return std::nullopt;
  }
  return rows;
}

}  // namespace batchplan
