// The parts of a row that a search moves to another.

#ifndef BATCHPLAN_SERVER_PLANNER_ROWS_ROW_CHUNKS_H_
#define BATCHPLAN_SERVER_PLANNER_ROWS_ROW_CHUNKS_H_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "server/planner/rows/row.h"
#include "server/planner/rows/row_items.h"

namespace batchplan {

// Consecutive items of a bin: `out` is what their bin loses without them, `in` what another bin
// gains with them.
struct RowChunk {
  uint32_t begin = 0;
  uint32_t end = 0;
  uint32_t sequences = 0;
  RowChange out;
  RowChange in;
};

// Instead of a chunk's number: no chunk.
inline constexpr size_t kNoChunk = std::numeric_limits<size_t>::max();

class ChunkFinder {
 public:
  // The most single items of a row that are tried.
  static constexpr uint32_t kMostSingles = 160;

  // `may_empty`: whether a row may give all its items. Views `items`.
  ChunkFinder(const RowItems& items, bool may_empty) : items_(&items), may_empty_(may_empty) {}

  // Finds chunks of `from`: single items, for large rows some from the offset on, and runs that are
  // whole subtrees of the row, or halves of these. Their `in` is for the row `into`.
  void Find(const Row& from, const Row& into, uint64_t offset, std::vector<RowChunk>& chunks);

 private:
  const RowItems* items_;
  bool may_empty_;
  // Sums of the items before each item of a row.
  std::vector<double> costs_;
  std::vector<uint64_t> tokens_;
  std::vector<uint32_t> sequences_;
};

// The searched loads of a row's chunks: one value a load, chunk after chunk.
class ChunkLoads {
 public:
  void Set(const RowItems& items, const Row& row, std::span<const RowChunk> chunks);

  std::span<const double> sums(size_t chunk) const { return Of(sums_, chunk); }
  // If some loads are dealt: the largest item of the chunk, and of the row without the chunk.
  std::span<const double> largest(size_t chunk) const { return Of(largest_, chunk); }
  std::span<const double> left(size_t chunk) const { return Of(left_, chunk); }

 private:
  void SetLargest(const RowItems& items, const Row& row, std::span<const RowChunk> chunks);
  std::span<const double> Of(const std::vector<double>& values, size_t chunk) const {
    return std::span(values).subspan(chunk * count_, count_);
  }

  size_t count_ = 0;
  std::vector<double> sums_;
  std::vector<double> largest_;
  std::vector<double> left_;
  // For each item of the row, the largest item before it, and from it on.
  std::vector<double> before_;
  std::vector<double> behind_;
};

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_ROWS_ROW_CHUNKS_H_
