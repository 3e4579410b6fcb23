#include "server/planner/assign/shares.h"

#include <cstddef>
#include <numeric>
#include <vector>

namespace batchplan {

SequenceLists SharesOf(const SequenceLists& blocks, std::span<const uint32_t> rank_of,
                       uint32_t ranks) {
  std::vector<uint32_t> begin(ranks + 1, 0);
  for (size_t block = 0; block < blocks.size(); ++block) ++begin[rank_of[block] + 1];
  std::partial_sum(begin.begin(), begin.end(), begin.begin());
  std::vector<uint32_t> by_rank(blocks.size());
  std::vector<uint32_t> next(begin.begin(), begin.end() - 1);
  for (size_t block = 0; block < blocks.size(); ++block) {
    by_rank[next[rank_of[block]]++] = static_cast<uint32_t>(block);
  }
  SequenceLists shares;
  shares.Reserve(ranks, blocks.all().size());
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    for (uint32_t i = begin[rank]; i < begin[rank + 1]; ++i) shares.Push(blocks[by_rank[i]]);
    shares.Close();
  }
  return shares;
}

}  // namespace batchplan
