// How a plan's work lies on the data-parallel ranks, as text.

#ifndef BATCHPLAN_CLIENT_CLI_RANK_TABLE_H_
#define BATCHPLAN_CLIENT_CLI_RANK_TABLE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "client/cli/microbatches.h"

namespace batchplan::cli {

// With more ranks than this, the table sums them up instead of listing them.
inline constexpr uint32_t kMostRanksListed = 32;

// One line a rank: what it holds, how full its micro-batches are of true tokens, and its cost over
// the mean rank's, with a bar. Beyond kMostRanksListed ranks, the least, median and most of each
// column instead, and which rank is the slowest.
std::string FormatRankTable(const std::vector<RankLoad>& ranks, uint32_t budget);

}  // namespace batchplan::cli

#endif  // BATCHPLAN_CLIENT_CLI_RANK_TABLE_H_
