#include "naive_row.h"

#include <cstddef>

namespace batchplan::kernels {
namespace {

using Cells = std::vector<NaiveCell>;

void Append(Cells& to, const Cells& from) { to.insert(to.end(), from.begin(), from.end()); }

std::vector<Cells> InChunks(const Cells& cells, uint32_t chunks) {
  std::vector<Cells> result(chunks);
  const size_t size = cells.size() / chunks;
  for (size_t i = 0; i < size * chunks; ++i) result[i / size].push_back(cells[i]);
  return result;
}

// The cells of one padded sequence that `rank` gets.
Cells ShardOfRank(const Cells& sequence, const batchplan_layout_options& options, uint32_t rank) {
  const uint32_t ranks = options.context_parallel;
  if (ranks == 1) return sequence;
  if (options.sharding == BATCHPLAN_SHARDING_CONTIGUOUS) return InChunks(sequence, ranks)[rank];
  const std::vector<Cells> chunks = InChunks(sequence, 2 * ranks);
  Cells shard = chunks[rank];
  Append(shard, chunks[2 * ranks - 1 - rank]);
  return shard;
}

Cells Sequence(int32_t sequence, uint32_t length, uint32_t padded) {
  Cells cells;
  for (uint32_t token = 0; token < padded; ++token) {
    cells.push_back({sequence, static_cast<int32_t>(token), token >= length});
  }
  return cells;
}

}  // namespace

uint32_t NaivePaddedLength(uint32_t length, const batchplan_layout_options& options) {
  if (options.sequence_width > 0) return options.sequence_width;
  while (length % options.length_multiple != 0) ++length;
  return length;
}

std::vector<NaiveCell> NaiveRow(const std::vector<uint32_t>& lengths,
                                const batchplan_layout_options& options, uint32_t rank) {
  Cells row;
  if (rank == BATCHPLAN_ALL_RANKS) {
    for (uint32_t r = 0; r < options.context_parallel; ++r) {
      Append(row, NaiveRow(lengths, options, r));
    }
    return row;
  }
  uint32_t tail = options.row_width;
  for (size_t i = 0; i < lengths.size(); ++i) {
    const uint32_t padded = NaivePaddedLength(lengths[i], options);
    Append(row, ShardOfRank(Sequence(static_cast<int32_t>(i), lengths[i], padded), options, rank));
    tail -= padded;
  }
  Append(row, ShardOfRank(Sequence(-1, 0, tail), options, rank));
  return row;
}

}  // namespace batchplan::kernels
