#include "naive_row.h"

#include <cstddef>

namespace batchplan::kernels {
namespace {

using Slots = std::vector<NaiveSlot>;

void Append(Slots& to, const Slots& from) { to.insert(to.end(), from.begin(), from.end()); }

std::vector<Slots> InChunks(const Slots& slots, uint32_t chunks) {
  std::vector<Slots> result(chunks);
  const size_t size = slots.size() / chunks;
  for (size_t i = 0; i < size * chunks; ++i) result[i / size].push_back(slots[i]);
  return result;
}

// What `rank` gets of one padded sequence.
Slots ShareOfRank(const Slots& sequence, const batchplan_layout_options& options, uint32_t rank) {
  const uint32_t ranks = options.context_parallel;
  if (ranks == 1) return sequence;
  if (options.sharding == BATCHPLAN_SHARDING_CONTIGUOUS) return InChunks(sequence, ranks)[rank];
  const std::vector<Slots> chunks = InChunks(sequence, 2 * ranks);
  Slots share = chunks[rank];
  Append(share, chunks[2 * ranks - 1 - rank]);
  return share;
}

Slots Sequence(int32_t sequence, uint32_t length, uint32_t padded) {
  Slots slots;
  for (uint32_t token = 0; token < padded; ++token) {
    slots.push_back({sequence, static_cast<int32_t>(token), token >= length});
  }
  return slots;
}

}  // namespace

uint32_t NaivePaddedLength(uint32_t length, const batchplan_layout_options& options) {
  if (options.sequence_width > 0) return options.sequence_width;
  while (length % options.length_multiple != 0) ++length;
  return length;
}

std::vector<NaiveSlot> NaiveRow(const std::vector<uint32_t>& lengths,
                                const batchplan_layout_options& options, uint32_t rank) {
  Slots row;
  if (rank == BATCHPLAN_ALL_RANKS) {
    for (uint32_t r = 0; r < options.context_parallel; ++r) {
      Append(row, NaiveRow(lengths, options, r));
    }
    return row;
  }
  uint32_t tail = options.row_width;
  for (size_t i = 0; i < lengths.size(); ++i) {
    const uint32_t padded = NaivePaddedLength(lengths[i], options);
    Append(row, ShareOfRank(Sequence(static_cast<int32_t>(i), lengths[i], padded), options, rank));
    tail -= padded;
  }
  Append(row, ShareOfRank(Sequence(-1, 0, tail), options, rank));
  return row;
}

}  // namespace batchplan::kernels
