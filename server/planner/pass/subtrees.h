// Runs of leaves, in depth-first order, that share more with each other than with their neighbours.

#ifndef BATCHPLAN_SERVER_PLANNER_PASS_SUBTREES_H_
#define BATCHPLAN_SERVER_PLANNER_PASS_SUBTREES_H_

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace batchplan {

// The inner nodes of a compressed tree, found from what each leaf has in common with the one before
// it (T. Kasai et al., "Linear-time longest-common-prefix computation in suffix arrays and its
// applications", 2001). Node 0 has all leaves and depth 0. Leaves of a node that are in none of its
// children hang on it directly.
class Subtrees {
 public:
  static constexpr uint32_t kNone = std::numeric_limits<uint32_t>::max();

  struct Node {
    // Leaves begin .. end - 1.
    uint32_t begin = 0;
    uint32_t end = 0;
    // The tokens that all these leaves have in common.
    uint32_t depth = 0;
    uint32_t parent = kNone;
    // Children from left to right.
    uint32_t first_child = kNone;
    uint32_t last_child = kNone;
    uint32_t next_sibling = kNone;
  };

  // common[i]: the tokens that leaves i - 1 and i have in common; common[0] is not read. O(n).
  explicit Subtrees(std::span<const uint32_t> common);

  uint32_t size() const { return static_cast<uint32_t>(nodes_.size()); }
  const Node& operator[](uint32_t node) const { return nodes_[node]; }
  // All nodes, children before their parents.
  std::span<const uint32_t> bottom_up() const { return bottom_up_; }

 private:
  void Adopt(uint32_t parent, uint32_t child);

  std::vector<Node> nodes_;
  std::vector<uint32_t> bottom_up_;
};

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_PASS_SUBTREES_H_
