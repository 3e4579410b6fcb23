#include "server/planner/assign/shares.h"

#include <cstddef>
#include <numeric>
#include <vector>

namespace batchplan {

SequenceLists SharesOf(const SequenceLists& lists, std::span<const uint32_t> rank_of,
                       uint32_t ranks) {
  std::vector<uint32_t> begin(ranks + 1, 0);
  for (size_t list = 0; list < lists.size(); ++list) ++begin[rank_of[list] + 1];
  std::partial_sum(begin.begin(), begin.end(), begin.begin());
  std::vector<uint32_t> by_rank(lists.size());
  std::vector<uint32_t> next(begin.begin(), begin.end() - 1);
  for (size_t list = 0; list < lists.size(); ++list) {
    by_rank[next[rank_of[list]]++] = static_cast<uint32_t>(list);
  }
  SequenceLists shares;
  shares.Reserve(ranks, lists.all().size());
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    for (uint32_t i = begin[rank]; i < begin[rank + 1]; ++i) shares.Push(lists[by_rank[i]]);
    shares.Close();
  }
  return shares;
}

}  // namespace batchplan
