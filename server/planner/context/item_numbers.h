// From a sequence back to its item in a problem.

#ifndef BATCHPLAN_SERVER_PLANNER_CONTEXT_ITEM_NUMBERS_H_
#define BATCHPLAN_SERVER_PLANNER_CONTEXT_ITEM_NUMBERS_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "server/planner/manifest.h"
#include "server/planner/mini_batches.h"

namespace batchplan {

// Knows the items of one problem at a time.
class ItemNumbers {
 public:
  // Of a manifest of so many sequences.
  explicit ItemNumbers(size_t sequences);

  // Forgets all items, and numbers these. O(items).
  void Number(const SequenceLists& items);
  // The items whose first members are among the sequences, in their order.
  std::vector<uint32_t> In(std::span<const SequenceIndex> sequences) const;

 private:
  // By manifest position.
  std::vector<uint32_t> item_of_;
  std::vector<SequenceIndex> numbered_;
};

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_CONTEXT_ITEM_NUMBERS_H_
