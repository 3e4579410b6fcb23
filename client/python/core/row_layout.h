// Where the sequences of a micro-batch lie in its packed row.

#ifndef BATCHPLAN_CLIENT_PYTHON_CORE_ROW_LAYOUT_H_
#define BATCHPLAN_CLIENT_PYTHON_CORE_ROW_LAYOUT_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "batchplan/kernels.h"

namespace batchplan::python {

// Computed on the host, whatever device the row is on. The arrays that kernels read, int32, stand
// one behind the other, so that one copy brings them to a device.
class RowLayout {
 public:
  // Of sequences of `lengths` tokens at positions `indices` of the batch, whose first tokens are
  // shared as batchplan_compute_layout has it. Throws StatusError if they do not fit the row, or
  // one is there twice.
  RowLayout(std::span<const uint32_t> lengths, std::span<const uint32_t> indices,
            std::optional<std::span<const uint32_t>> shared,
            const batchplan_layout_options& options);

  // cu_seqlens and cu_seqlens_padded, n + 1 entries each, then the indices, where prefixes are
  // shared least_shared, and a 0 for an error word.
  const std::vector<int32_t>& arrays() const { return arrays_; }

  uint32_t num_sequences() const { return static_cast<uint32_t>(lengths_.size()); }
  bool shares() const { return shared_.has_value(); }
  const batchplan_layout_options& options() const { return options_; }
  int32_t num_tokens() const { return arrays_[num_sequences()]; }
  // Of the longest sequence.
  int32_t max_seqlen() const { return max_seqlen_; }
  int32_t max_seqlen_padded() const { return max_seqlen_padded_; }
  // -1 without sequences.
  int64_t last_index() const { return last_index_; }

  // The kernels' view of arrays that stand like these at `arrays`.
  batchplan_row RowOf(const int32_t* arrays) const;
  const int32_t* IndicesOf(const int32_t* arrays) const;

  // Whether rows of `num_tokens` tokens together, which begin and end at `offsets`, have those of
  // the sequences: the row at an index, or where they are `gathered` at a place.
  bool HasTokens(std::span<const int64_t> offsets, int64_t num_tokens, bool gathered) const;

  // Of each token of the row, the place behind the last one that sees it.
  std::vector<int32_t> SubtreeEnds() const;

 private:
  std::vector<uint32_t> lengths_;
  std::optional<std::vector<uint32_t>> shared_;
  batchplan_layout_options options_;
  std::vector<int32_t> arrays_;
  int32_t max_seqlen_ = 0;
  int32_t max_seqlen_padded_ = 0;
  int64_t last_index_ = -1;
};

}  // namespace batchplan::python

#endif  // BATCHPLAN_CLIENT_PYTHON_CORE_ROW_LAYOUT_H_
