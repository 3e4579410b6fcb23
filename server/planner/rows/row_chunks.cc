#include "server/planner/rows/row_chunks.h"

#include <algorithm>

namespace batchplan {
namespace {

// The most runs of a row's items that are tried.
constexpr size_t kMostRuns = 48;

}  // namespace

void ChunkFinder::Find(const Row& from, const Row& into, uint64_t offset,
                       std::vector<RowChunk>& chunks) {
  const PathCost& cost = items_->path_cost();
  const auto size = static_cast<uint32_t>(from.items.size());
  chunks.clear();
  costs_.assign(1, 0);
  tokens_.assign(1, 0);
  sequences_.assign(1, 0);
  for (uint32_t i = 0; i < size; ++i) {
    const uint32_t item = from.items[i];
    costs_.push_back(costs_[i] + items_->cost(item) - cost(from.commons[i]));
    tokens_.push_back(tokens_[i] + items_->tokens(item) - from.commons[i]);
    sequences_.push_back(sequences_[i] + items_->count(item));
  }
  // Adds items begin .. end - 1, which share at least as much with each other as with their
  // neighbours.
  const auto add = [&](uint32_t begin, uint32_t end) {
    RowChunk& chunk = chunks.emplace_back();
    chunk.begin = begin;
    chunk.end = end;
    chunk.sequences = sequences_[end] - sequences_[begin];
    const uint32_t before = from.commons[begin];
    const RowChange alone = {.tokens = tokens_[end] - tokens_[begin] + before,
                             .cost = costs_[end] - costs_[begin] + cost(before)};
    chunk.out = {.tokens = alone.tokens - before, .cost = alone.cost - cost(before)};
    if (end < size) {
      const uint32_t after = from.commons[end];
      const uint32_t around = std::min(before, after);
      chunk.out.tokens -= after - around;
      chunk.out.cost -= cost(after) - cost(around);
    }
    chunk.in = ChangeBy(*items_, into, std::span(from.items).subspan(begin, end - begin), alone);
  };
  const uint32_t apart = (size + kMostSingles - 1) / kMostSingles;
  for (uint32_t i = apart < 2 ? 0 : offset % apart; i < size; i += apart) add(i, i + 1);
  const size_t most = chunks.size() + kMostRuns;
  // Runs between places where less is in common.
  struct Open {
    uint32_t begin;
    uint32_t common;
  };
  std::vector<Open> open;
  const auto close = [&](const Open& run, uint32_t end) {
    const bool is_all = end - run.begin == size && !may_empty_;
    if (end - run.begin < 2 || is_all || chunks.size() >= most) return;
    add(run.begin, end);
    const uint32_t middle = run.begin + (end - run.begin) / 2;
    if (middle - run.begin >= 2) add(run.begin, middle);
    if (end - middle >= 2) add(middle, end);
  };
  for (uint32_t i = 1; i <= size; ++i) {
    const uint32_t common = i < size ? from.commons[i] : 0;
    uint32_t begin = i - 1;
    while (!open.empty() && open.back().common > common) {
      begin = open.back().begin;
      close(open.back(), i);
      open.pop_back();
    }
    if (common > 0 && (open.empty() || open.back().common < common))
      open.push_back({begin, common});
  }
}

void ChunkLoads::Set(const RowItems& items, const Row& row, std::span<const RowChunk> chunks) {
  count_ = items.searched_loads().size();
  sums_.assign(chunks.size() * count_, 0);
  if (count_ == 0) return;
  for (size_t i = 0; i < chunks.size(); ++i) {
    for (uint32_t k = chunks[i].begin; k < chunks[i].end; ++k) {
      const std::span<const double> of_item = items.loads(row.items[k]);
      for (size_t load = 0; load < count_; ++load) sums_[i * count_ + load] += of_item[load];
    }
  }
  if (items.some_are_dealt()) SetLargest(items, row, chunks);
}

void ChunkLoads::SetLargest(const RowItems& items, const Row& row,
                            std::span<const RowChunk> chunks) {
  const size_t size = row.items.size();
  before_.assign((size + 1) * count_, 0);
  behind_.assign((size + 1) * count_, 0);
  for (size_t k = 0; k < size; ++k) {
    const std::span<const double> own = items.largest(row.items[k]);
    const std::span<const double> last = items.largest(row.items[size - 1 - k]);
    for (size_t load = 0; load < count_; ++load) {
      const size_t at = k * count_ + load;
      before_[at + count_] = std::max(before_[at], own[load]);
      const size_t from = (size - k) * count_ + load;
      behind_[from - count_] = std::max(behind_[from], last[load]);
    }
  }
  largest_.assign(chunks.size() * count_, 0);
  left_.assign(chunks.size() * count_, 0);
  for (size_t i = 0; i < chunks.size(); ++i) {
    for (size_t load = 0; load < count_; ++load) {
      double& largest = largest_[i * count_ + load];
      for (uint32_t k = chunks[i].begin; k < chunks[i].end; ++k) {
        largest = std::max(largest, items.largest(row.items[k])[load]);
      }
      left_[i * count_ + load] = std::max(before_[chunks[i].begin * count_ + load],
                                          behind_[chunks[i].end * count_ + load]);
    }
  }
}

}  // namespace batchplan
