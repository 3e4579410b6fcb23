#include "server/planner/rows/row_order.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <utility>

namespace batchplan {
namespace {

// A block of more rows is halved.
constexpr size_t kMostInBlock = 128;

}  // namespace

size_t RowOrder::BlockOf(const Entry& entry) const {
  return std::ranges::partition_point(
             blocks_, [&](const Block& block) { return block.entries.back() < entry; }) -
         blocks_.begin();
}

void RowOrder::Insert(double key, uint32_t row) {
  const Entry entry(key, row);
  const size_t next = BlockOf(entry);
  if (blocks_.empty()) Measure(blocks_.emplace_back());
  const size_t at = std::min(next, blocks_.size() - 1);
  std::vector<Entry>& entries = blocks_[at].entries;
  entries.insert(std::ranges::upper_bound(entries, entry), entry);
  Include(row, blocks_[at]);
  if (entries.size() <= kMostInBlock) return;
  Block upper;
  const auto half = entries.begin() + kMostInBlock / 2;
  upper.entries.reserve(kMostInBlock + 1);
  upper.entries.assign(half, entries.end());
  entries.erase(half, entries.end());
  Measure(upper);
  Measure(blocks_[at]);
  blocks_.insert(blocks_.begin() + static_cast<ptrdiff_t>(at) + 1, std::move(upper));
}

void RowOrder::Erase(double key, uint32_t row) {
  const Entry entry(key, row);
  const auto block = blocks_.begin() + static_cast<ptrdiff_t>(BlockOf(entry));
  block->entries.erase(std::ranges::lower_bound(block->entries, entry));
  if (block->entries.empty()) {
    blocks_.erase(block);
  } else if (IsLeast(row, *block)) {
    Measure(*block);
  }
}

void RowOrder::Find(double key, const RowNeed* need, absl::FunctionRef<bool(uint32_t)> look) const {
  const Entry first(key, 0);
  for (size_t at = BlockOf(first); at < blocks_.size(); ++at) {
    const Block& block = blocks_[at];
    if (need != nullptr && !MayHold(block, *need)) continue;
    for (auto entry = std::ranges::lower_bound(block.entries, first); entry != block.entries.end();
         ++entry) {
      if (look(entry->second)) return;
    }
  }
}

void RowOrder::Measure(Block& block) const {
  block.tokens = std::numeric_limits<uint64_t>::max();
  block.sequences = std::numeric_limits<uint64_t>::max();
  block.loads.sums.fill(std::numeric_limits<double>::infinity());
  for (const Entry& entry : block.entries) Include(entry.second, block);
}

void RowOrder::Include(uint32_t row, Block& block) const {
  const Row& included = (*rows_)[row];
  block.tokens = std::min(block.tokens, included.tokens);
  block.sequences = std::min<uint64_t>(block.sequences, included.sequences);
  for (size_t load = 0; load < searched_.size(); ++load) {
    block.loads.sums[load] = std::min(block.loads.sums[load], included.loads.sums[load]);
  }
}

bool RowOrder::IsLeast(uint32_t row, const Block& block) const {
  const Row& own = (*rows_)[row];
  if (own.tokens <= block.tokens || own.sequences <= block.sequences) return true;
  for (size_t load = 0; load < searched_.size(); ++load) {
    if (own.loads.sums[load] <= block.loads.sums[load]) return true;
  }
  return false;
}

bool RowOrder::MayHold(const Block& block, const RowNeed& need) const {
  if (block.sequences == 0 && need.is_one) return true;
  if (block.tokens + need.tokens > terms_->capacity ||
      block.sequences + need.sequences > terms_->max_sequences) {
    return false;
  }
  for (size_t load = 0; load < searched_.size(); ++load) {
    if (block.loads.sums[load] + need.loads[load] > searched_[load].most) return false;
  }
  return true;
}

}  // namespace batchplan
