#include "server/planner/pass/subtrees.h"

#include <cstddef>

namespace batchplan {

Subtrees::Subtrees(std::span<const uint32_t> common) : nodes_(1) {
  const auto size = static_cast<uint32_t>(common.size());
  nodes_[0].end = size;
  std::vector<uint32_t> open = {0};
  for (uint32_t i = 1; i <= size; ++i) {
    const uint32_t depth = i == size ? 0 : common[i];
    uint32_t begin = i - 1;
    uint32_t closed = kNone;
    while (nodes_[open.back()].depth > depth) {
      closed = open.back();
      open.pop_back();
      nodes_[closed].end = i;
      bottom_up_.push_back(closed);
      begin = nodes_[closed].begin;
      if (nodes_[open.back()].depth >= depth) Adopt(open.back(), closed);
    }
    if (depth > nodes_[open.back()].depth) {
      const auto opened = static_cast<uint32_t>(nodes_.size());
      nodes_.push_back({.begin = begin, .depth = depth});
      if (closed != kNone) Adopt(opened, closed);
      open.push_back(opened);
    }
  }
  bottom_up_.push_back(0);
}

void Subtrees::Adopt(uint32_t parent, uint32_t child) {
  Node& node = nodes_[parent];
  nodes_[child].parent = parent;
  if (node.last_child == kNone) {
    node.first_child = child;
  } else {
    nodes_[node.last_child].next_sibling = child;
  }
  node.last_child = child;
}

}  // namespace batchplan
