// What a step takes as two of its rows change, all others as they are.

#ifndef BATCHPLAN_SERVER_PLANNER_ROWS_ROW_OUTLOOK_H_
#define BATCHPLAN_SERVER_PLANNER_ROWS_ROW_OUTLOOK_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "server/planner/rows/row.h"
#include "server/planner/rows/row_items.h"

namespace batchplan {

// How much what all bins cost together counts beside the step: less repeated leaves more room.
constexpr double kWorkShare = 0.02;

// What the step takes of what it depends on, and a little of all work, if two bins cost `x` and
// `y`, all else as it is. Under kLockstep they are in slots whose other bins cost up to rest_a and
// rest_b; else their ranks have as much besides, and other ranks up to rest.
struct RowOutlook {
  enum Kind { kOneSlot, kTwoSlots, kOneRank, kTwoRanks };

  template <Kind kKind>
  double As(double x, double y) const {
    const double work = kWorkShare * (x + y);
    if constexpr (kKind == kOneSlot) return std::max(std::max(x, y), rest) + work;
    if constexpr (kKind == kTwoSlots) return std::max(x, rest_a) + std::max(y, rest_b) + work;
    if constexpr (kKind == kOneRank) return std::max(x + y + rest_a, rest) + work;
    return std::max(std::max(x + rest_a, y + rest_b), rest) + work;
  }
  double Of(double x, double y) const {
    switch (kind) {
      case kOneSlot:
        return As<kOneSlot>(x, y);
      case kTwoSlots:
        return As<kTwoSlots>(x, y);
      case kOneRank:
        return As<kOneRank>(x, y);
      case kTwoRanks:
        return As<kTwoRanks>(x, y);
    }
    return 0;
  }
  // values[j] = Of(x + added[j], y - removed[j]).
  template <Kind kKind>
  void Fill(double x, double y, const double* added, const double* removed, size_t count,
            double* values) const {
    for (size_t j = 0; j < count; ++j) values[j] = As<kKind>(x + added[j], y - removed[j]);
  }
  void OfAll(double x, double y, const double* added, const double* removed, size_t count,
             double* values) const {
    switch (kind) {
      case kOneSlot:
        return Fill<kOneSlot>(x, y, added, removed, count, values);
      case kTwoSlots:
        return Fill<kTwoSlots>(x, y, added, removed, count, values);
      case kOneRank:
        return Fill<kOneRank>(x, y, added, removed, count, values);
      case kTwoRanks:
        return Fill<kTwoRanks>(x, y, added, removed, count, values);
    }
  }

  Kind kind = kOneSlot;
  double rest = 0;
  double rest_a = 0;
  double rest_b = 0;
};

// What two bins have of searched loads, and what the step takes for it.
struct LoadsOutlook {
  // `phases` are the outlooks of searched loads that have a phase; others are not looked at.
  LoadsOutlook(std::span<const SearchedLoad> searched, const LoadSums& of_a, const LoadSums& of_b,
               double weight, std::vector<RowOutlook> phases)
      : searched(searched), of_a(of_a), of_b(of_b), weight(weight), outlooks(std::move(phases)) {
    for (size_t load = 0; load < searched.size(); ++load) {
      if (searched[load].per_unit == 0) continue;
      const RowOutlook& outlook = outlooks[load];
      floor +=
          outlook.kind == RowOutlook::kOneSlot ? outlook.rest : outlook.rest_a + outlook.rest_b;
    }
    excess = Excess(of_a, of_b);
  }

  bool empty() const { return searched.empty(); }

  double Excess(const LoadSums& x, const LoadSums& y) const {
    double sum = 0;
    for (size_t load = 0; load < searched.size(); ++load) {
      sum += searched[load].ExcessOf(x[load]) + searched[load].ExcessOf(y[load]);
    }
    return sum;
  }

  // Infinite where the bins would be further above limits than they are.
  double Of(const LoadSums& x, const LoadSums& y) const {
    const double above = Excess(x, y);
    if (above > excess) return std::numeric_limits<double>::infinity();
    double value = weight * above;
    for (size_t load = 0; load < searched.size(); ++load) {
      const double per_unit = searched[load].per_unit;
      if (per_unit > 0) value += outlooks[load].Of(per_unit * x[load], per_unit * y[load]);
    }
    return value;
  }
  double Now() const { return empty() ? 0 : Of(of_a, of_b); }
  // Where a gives the loads `from_a`, and b `from_b`.
  double Traded(const double* from_a, const double* from_b) const {
    LoadSums x = of_a;
    LoadSums y = of_b;
    for (size_t load = 0; load < searched.size(); ++load) {
      const double to_b =
          (from_a == nullptr ? 0 : from_a[load]) - (from_b == nullptr ? 0 : from_b[load]);
      x[load] -= to_b;
      y[load] += to_b;
    }
    return Of(x, y);
  }

  std::span<const SearchedLoad> searched;
  const LoadSums& of_a;
  const LoadSums& of_b;
  double weight;
  std::vector<RowOutlook> outlooks;
  // What phases take whatever the two bins have.
  double floor = 0;
  double excess = 0;
};

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_ROWS_ROW_OUTLOOK_H_
