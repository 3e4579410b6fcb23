#include "server/planner/assign/shares.h"

#include <algorithm>
#include <numeric>
#include <vector>

namespace batchplan {

SequenceLists SharesOf(const SequenceLists& blocks, std::span<const uint32_t> rank_of,
                       uint32_t ranks) {
  std::vector<uint32_t> order(blocks.size());
  std::iota(order.begin(), order.end(), 0u);
  std::stable_sort(order.begin(), order.end(),
                   [&](uint32_t a, uint32_t b) { return rank_of[a] < rank_of[b]; });
  SequenceLists shares;
  shares.Reserve(ranks, blocks.all().size());
  size_t next = 0;
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    for (; next < order.size() && rank_of[order[next]] == rank; ++next) {
      shares.Push(blocks[order[next]]);
    }
    shares.Close();
  }
  return shares;
}

}  // namespace batchplan
