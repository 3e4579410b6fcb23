// Rows in the order of a key, where the first with room is found without a look at those before it.

#ifndef BATCHPLAN_SERVER_PLANNER_ROWS_ROW_ORDER_H_
#define BATCHPLAN_SERVER_PLANNER_ROWS_ROW_ORDER_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "server/planner/rows/row.h"
#include "server/planner/rows/row_items.h"
#include "server/planner/rows/row_terms.h"

namespace batchplan {

// What items add to a row at least.
struct RowNeed {
  uint64_t tokens = 0;
  uint64_t sequences = 0;
  // One a searched load.
  std::span<const double> loads = {};
  // Whether an empty row holds them in any case, as it does one item.
  bool is_one = false;
};

// Rows ascend by (key, number). They lie in blocks, each of which knows the least that its rows
// hold: a block without room is passed over. So the first row with room is found in time that grows
// with the blocks, a hundredth of the rows.
class RowOrder {
 public:
  // No rows. Views all that it is given.
  RowOrder(std::span<const SearchedLoad> searched, const RowTerms& terms,
           const std::vector<Row>& rows)
      : searched_(searched), terms_(&terms), rows_(&rows) {}

  // A row must not change while it is in the order.
  void Insert(double key, uint32_t row);
  void Erase(double key, uint32_t row);

  // Calls look(row) for rows from `key` on, in their order, until it returns true. With a `need`
  // it may leave out rows that have no room for that.
  void Find(double key, const RowNeed* need, absl::FunctionRef<bool(uint32_t)> look) const;

 private:
  using Entry = std::pair<double, uint32_t>;

  struct Block {
    std::vector<Entry> entries;
    // The least of its rows, each by itself.
    uint64_t tokens = 0;
    uint64_t sequences = 0;
    RowLoads loads;
  };

  // The first block that doesn't end before the entry.
  size_t BlockOf(const Entry& entry) const;
  // Finds anew what the rows of a block hold at least.
  void Measure(Block& block) const;
  void Include(uint32_t row, Block& block) const;
  // Whether a row of the block holds no more than all others, of something.
  bool IsLeast(uint32_t row, const Block& block) const;
  bool MayHold(const Block& block, const RowNeed& need) const;

  std::span<const SearchedLoad> searched_;
  const RowTerms* terms_;
  const std::vector<Row>* rows_;
  // None is empty.
  std::vector<Block> blocks_;
};

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_ROWS_ROW_ORDER_H_
