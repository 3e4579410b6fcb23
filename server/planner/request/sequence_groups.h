// The sequences that stay together.

#ifndef BATCHPLAN_SERVER_PLANNER_REQUEST_SEQUENCE_GROUPS_H_
#define BATCHPLAN_SERVER_PLANNER_REQUEST_SEQUENCE_GROUPS_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "server/planner/request/manifest.h"
#include "server/planner/request/options.h"

namespace batchplan {

// Groups of sequences that stay together, such as the answers to a GRPO prompt or DPO pairs,
// numbered by first appearance. Empty if the policy ignores groups or the manifest has none.
class Groups {
 public:
  Groups(const Manifest& manifest, GroupPolicy policy);

  bool empty() const { return group_of_.empty(); }
  size_t size() const { return size_; }
  uint32_t operator[](SequenceIndex sequence) const { return group_of_[sequence.value()]; }

  // `sequences` as one list a group, in the order of first appearance; as Singles if there are no
  // groups.
  SequenceLists Together(std::span<const SequenceIndex> sequences) const;

 private:
  std::vector<uint32_t> group_of_;  // by manifest position
  size_t size_ = 0;
};

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_REQUEST_SEQUENCE_GROUPS_H_
