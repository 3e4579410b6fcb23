#include <algorithm>
#include <queue>
#include <tuple>

#include "server/planner/padded/splits.h"

namespace batchplan {
namespace {

// Padded tokens of the positions [begin, end), over all ranks.
uint64_t PaddedTokens(std::span<const PaddedItems> ranks, uint32_t begin, uint32_t end) {
  uint64_t count = 0;
  uint32_t width = 0;
  for (const PaddedItems& items : ranks) {
    for (uint32_t i = begin; i < end; ++i) count += items.count(i);
    width = std::max(width, items.widths[end - 1]);
  }
  return count * width;
}

bool LoadsAllow(std::span<const PaddedItems> ranks, uint32_t begin, uint32_t end) {
  return std::ranges::all_of(
      ranks, [&](const PaddedItems& items) { return items.LoadsAllow(begin, end); });
}

}  // namespace

std::vector<uint32_t> ReachOfLoads(const PaddedItems& items) {
  const auto size = static_cast<uint32_t>(items.size());
  std::vector<uint32_t> reach;
  reach.reserve(size);
  uint32_t end = 1;
  for (uint32_t begin = 0; begin < size; ++begin) {
    end = std::max(end, begin + 1);
    while (end < size && items.LoadsAllow(begin, end + 1)) ++end;
    reach.push_back(end);
  }
  return reach;
}

Cuts SortedScan(const PaddedItems& items, const PaddedLimits& limits) {
  return SharedSortedScan({&items, 1}, limits);
}

Cuts SharedSortedScan(std::span<const PaddedItems> ranks, const PaddedLimits& limits) {
  Cuts cuts = {0};
  std::vector<uint64_t> counts(ranks.size(), 0);
  const auto size = static_cast<uint32_t>(ranks.front().size());
  const bool limited =
      std::ranges::any_of(ranks, [](const PaddedItems& items) { return !items.loads.empty(); });
  for (uint32_t position = 0; position < size; ++position) {
    uint32_t width = 0;
    uint64_t most = 0;
    for (size_t rank = 0; rank < ranks.size(); ++rank) {
      counts[rank] += ranks[rank].count(position);
      most = std::max(most, counts[rank]);
      width = std::max(width, ranks[rank].widths[position]);
    }
    const auto fits = [&] {
      return limits.Allow(most, width) &&
             (!limited || LoadsAllow(ranks, cuts.back(), position + 1));
    };
    if (position > cuts.back() && !fits()) {
      cuts.push_back(position);
      for (size_t rank = 0; rank < ranks.size(); ++rank) counts[rank] = ranks[rank].count(position);
    }
  }
  if (size > 0) cuts.push_back(size);
  return cuts;
}

Cuts HalveRuns(std::span<const PaddedItems> ranks, const Cuts& cuts, size_t runs) {
  // By padded tokens, of equal ones the foremost.
  struct Run {
    uint64_t tokens;
    uint32_t begin;
    uint32_t end;
    bool operator<(const Run& other) const {
      return std::tuple(tokens, other.begin) < std::tuple(other.tokens, begin);
    }
  };
  std::priority_queue<Run> largest;
  Cuts halved(cuts.begin(), cuts.end());
  const auto push = [&](uint32_t begin, uint32_t end) {
    if (end - begin > 1) largest.push({PaddedTokens(ranks, begin, end), begin, end});
  };
  for (size_t run = 0; run + 1 < cuts.size(); ++run) push(cuts[run], cuts[run + 1]);
  while (halved.size() - 1 < runs) {
    const Run run = largest.top();
    largest.pop();
    const uint32_t middle = run.begin + (run.end - run.begin) / 2;
    halved.push_back(middle);
    push(run.begin, middle);
    push(middle, run.end);
  }
  std::sort(halved.begin(), halved.end());
  return halved;
}

}  // namespace batchplan
