// The lengths of one global batch, as the caller holds them.

#ifndef BATCHPLAN_SERVER_PLANNER_MANIFEST_H_
#define BATCHPLAN_SERVER_PLANNER_MANIFEST_H_

#include <cstdint>
#include <span>

namespace batchplan {

// A view: the caller's arrays are read in place, never copied, and must outlive the planning call.
struct Manifest {
  // Tokens of each sequence; a sequence is known by its position here.
  std::span<const uint32_t> lengths = {};
  // Empty, or one a sequence.
  std::span<const uint32_t> group_ids = {};
  // Width the batch would be padded to without a plan; 0: the longest sequence.
  uint32_t pad_to = 0;
};

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_MANIFEST_H_
