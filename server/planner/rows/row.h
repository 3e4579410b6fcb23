// A packed row of items in the making.

#ifndef BATCHPLAN_SERVER_PLANNER_ROWS_ROW_H_
#define BATCHPLAN_SERVER_PLANNER_ROWS_ROW_H_

#include <cstdint>
#include <span>
#include <vector>

#include "server/planner/rows/row_items.h"

namespace batchplan {

// The items of one row, ascending, and what they add up to.
struct Row {
  std::vector<uint32_t> items;
  // Of each item and the one before it; 0 of the first.
  std::vector<uint32_t> commons;
  uint64_t tokens = 0;
  uint32_t sequences = 0;
  // Without the fixed cost of a micro-batch, and without phases.
  double cost = 0;
  RowLoads loads = {};
};

// What the bin takes with its phases, but for those that are dealt.
double CostWithPhases(const RowItems& items, const Row& bin);

// By how much the bin is above limits of loads, or off a multiple of sequences, in parts of these;
// what runs alone is not.
double ExcessOf(const RowItems& items, const Row& bin);

// Whether the bin has room for so much of the searched loads.
bool HasRoomForLoads(const RowItems& items, const Row& bin, std::span<const double> added);

Row BinOf(const RowItems& items, std::vector<uint32_t> ascending);

// Adds items, ascending and none of them in the bin. In the time of moving what stands behind them,
// unless items of the bin stand between them.
void AddTo(const RowItems& items, std::span<const uint32_t> added, Row& bin);

// What items that follow each other in a bin, or stand by themselves, add to another bin, or take
// from their own.
struct RowChange {
  uint64_t tokens = 0;
  double cost = 0;
};

// What `added`, ascending and none of them in the bin, brings. `alone` is what these items have in
// a row of their own.
RowChange ChangeBy(const RowItems& items, const Row& bin, std::span<const uint32_t> added,
                   const RowChange& alone);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_ROWS_ROW_H_
