// A packed row while a search changes it.

#ifndef BATCHPLAN_SERVER_PLANNER_ROWS_ROW_H_
#define BATCHPLAN_SERVER_PLANNER_ROWS_ROW_H_

#include <cstdint>
#include <span>
#include <vector>

#include "server/planner/rows/row_items.h"

namespace batchplan {

// The items of one row, ascending, and their sums.
struct Row {
  std::vector<uint32_t> items;
  // The tokens that each item has in common with the one before it; 0 for the first.
  std::vector<uint32_t> commons;
  uint64_t tokens = 0;
  uint32_t sequences = 0;
  // Without the fixed cost of a micro-batch, and without phases.
  double cost = 0;
  RowLoads loads = {};
};

// The cost of the bin with its phases, except dealt ones.
double CostWithPhases(const RowItems& items, const Row& bin);

// By how much the bin is above its limits on loads, or off the multiple of sequences, as fractions
// of these; 0 for a bin that runs alone.
double ExcessOf(const RowItems& items, const Row& bin);

// Whether the bin has room for `added`, one value a searched load.
bool HasRoomForLoads(const RowItems& items, const Row& bin, std::span<const double> added);

Row BinOf(const RowItems& items, std::vector<uint32_t> ascending);

// Adds items, ascending and none of them in the bin. As fast as moving the items behind them, if no
// items of the bin lie between them.
void AddTo(const RowItems& items, std::span<const uint32_t> added, Row& bin);

// What neighbouring items of a bin, or single items, add to another bin or leave in their own.
struct RowChange {
  uint64_t tokens = 0;
  double cost = 0;
};

// What `added`, items that ascend and are not in the bin, add to it. `alone` is what they have in a
// row of their own.
RowChange ChangeBy(const RowItems& items, const Row& bin, std::span<const uint32_t> added,
                   const RowChange& alone);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_ROWS_ROW_H_
