// The time of a step when two of its rows change.

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
#include "server/planner/rows/row_chunks.h"
#include "server/planner/rows/row_items.h"

namespace batchplan {

// The weight of the total cost of all bins beside the step's time: the fewer tokens are repeated,
// the more room there is.
constexpr double kWorkShare = 0.02;

// The part of the step's time that depends on two bins, and a little of all work, if these bins
// cost `x` and `y`. Under kLockstep rest_a and rest_b are the costliest other bins of their slots.
// Otherwise they are the costs of their ranks' other bins, and other ranks cost up to rest.
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

// The time of a dealt load's phase in the slots of two rows that change.
struct DealtOutlook {
  double Of(double sum_a, double largest_a, double sum_b, double largest_b) const {
    if (is_one_slot)
      return Slot(rest_a.sum + sum_a + sum_b, std::max(largest_a, largest_b), rest_a);
    return Slot(rest_a.sum + sum_a, largest_a, rest_a) +
           Slot(rest_b.sum + sum_b, largest_b, rest_b);
  }

  // The other rows of a slot.
  struct Rest {
    double sum = 0;
    double largest = 0;
  };
  double Slot(double sum, double largest, const Rest& rest) const {
    return per_unit * std::max({sum / ranks, largest, rest.largest});
  }

  double per_unit = 0;
  double ranks = 1;
  bool is_one_slot = false;
  Rest rest_a;
  Rest rest_b;
};

// The searched loads of two bins, and the time of the step for them.
struct LoadsOutlook {
  // `phases` and `deals` have one entry for each searched load; only the entries of loads with a
  // phase, or that are dealt, are used.
  LoadsOutlook(std::span<const SearchedLoad> searched, const RowLoads& of_a, const RowLoads& of_b,
               double weight, std::vector<RowOutlook> phases, std::vector<DealtOutlook> deals)
      : searched(searched),
        of_a(of_a),
        of_b(of_b),
        weight(weight),
        outlooks(std::move(phases)),
        dealt(std::move(deals)) {
    for (size_t load = 0; load < searched.size(); ++load) {
      if (searched[load].per_unit == 0 || searched[load].dealt) continue;
      const RowOutlook& outlook = outlooks[load];
      floor +=
          outlook.kind == RowOutlook::kOneSlot ? outlook.rest : outlook.rest_a + outlook.rest_b;
    }
    excess = Excess(of_a, of_b);
  }

  bool empty() const { return searched.empty(); }

  double Excess(const RowLoads& x, const RowLoads& y) const {
    double sum = 0;
    for (size_t load = 0; load < searched.size(); ++load) {
      sum += searched[load].ExcessOf(x.sums[load]) + searched[load].ExcessOf(y.sums[load]);
    }
    return sum;
  }

  // Infinite if the bins would exceed limits by more than now.
  double Of(const RowLoads& x, const RowLoads& y) const {
    return By([&](size_t load) { return std::pair(x.sums[load], y.sums[load]); },
              [&](size_t load) { return std::pair(x.largest[load], y.largest[load]); });
  }
  double Now() const { return empty() ? 0 : Of(of_a, of_b); }
  // Of() after a gives chunk i of `from_a` and b gives chunk j of `from_b`; kNoChunk: none.
  double Traded(const ChunkLoads& from_a, size_t i, const ChunkLoads& from_b, size_t j) const {
    const auto sums = [&](size_t load) {
      double x = of_a.sums[load];
      double y = of_b.sums[load];
      if (i != kNoChunk) {
        const double given = from_a.sums(i)[load];
        x -= given;
        y += given;
      }
      if (j != kNoChunk) {
        const double given = from_b.sums(j)[load];
        y -= given;
        x += given;
      }
      return std::pair(x, y);
    };
    const auto largest = [&](size_t load) {
      return std::pair(Largest(from_a, i, of_a, from_b, j, load),
                       Largest(from_b, j, of_b, from_a, i, load));
    };
    return By(sums, largest);
  }

  std::span<const SearchedLoad> searched;
  const RowLoads& of_a;
  const RowLoads& of_b;
  double weight;
  std::vector<RowOutlook> outlooks;
  // Empty if no load is dealt.
  std::vector<DealtOutlook> dealt;
  // The time of phases whatever is in the two bins.
  double floor = 0;
  double excess = 0;

 private:
  // Of() for bins of which sums_of(load) are the two sums of a load, and largest_of(load), if it is
  // dealt, the two largest items.
  template <typename SumsOf, typename LargestOf>
  double By(SumsOf sums_of, LargestOf largest_of) const {
    double above = 0;
    for (size_t load = 0; load < searched.size(); ++load) {
      const auto [x, y] = sums_of(load);
      above += searched[load].ExcessOf(x) + searched[load].ExcessOf(y);
    }
    if (above > excess) return std::numeric_limits<double>::infinity();
    double value = weight * above;
    for (size_t load = 0; load < searched.size(); ++load) {
      const double per_unit = searched[load].per_unit;
      if (per_unit == 0) continue;
      const auto [x, y] = sums_of(load);
      if (!searched[load].dealt) {
        value += outlooks[load].Of(per_unit * x, per_unit * y);
        continue;
      }
      const auto [largest_x, largest_y] = largest_of(load);
      value += dealt[load].Of(x, largest_x, y, largest_y);
    }
    return value;
  }
  // The largest item of a row that gives chunk `out` and gets chunk `in`.
  static double Largest(const ChunkLoads& own, size_t out, const RowLoads& now,
                        const ChunkLoads& other, size_t in, size_t load) {
    const double left = out == kNoChunk ? now.largest[load] : own.left(out)[load];
    return std::max(left, in == kNoChunk ? 0 : other.largest(in)[load]);
  }
};

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_ROWS_ROW_OUTLOOK_H_
