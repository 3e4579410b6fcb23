#include "client/python/core/row_layout.h"

#include <algorithm>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "client/python/core/status_error.h"

namespace batchplan::python {
namespace {

[[noreturn]] void Refuse(const std::string& message) {
  throw StatusError(absl::InvalidArgumentError(message));
}

void CheckUnique(std::span<const uint32_t> indices) {
  std::vector<uint32_t> sorted(indices.begin(), indices.end());
  std::ranges::sort(sorted);
  const auto twice = std::ranges::adjacent_find(sorted);
  if (twice == sorted.end()) return;
  Refuse(absl::StrCat("the micro-batch has sequence ", *twice, " ",
                      std::ranges::count(sorted, *twice), " times; it must be there once"));
}

}  // namespace

RowLayout::RowLayout(std::span<const uint32_t> lengths, std::span<const uint32_t> indices,
                     std::optional<std::span<const uint32_t>> shared,
                     const batchplan_layout_options& options)
    : lengths_(lengths.begin(), lengths.end()), options_(options) {
  const size_t count = lengths.size();
  if (indices.size() != count || (shared && shared->size() != count)) {
    Refuse(absl::StrCat("the micro-batch has ", count, " lengths and ", indices.size(),
                        " indices; must have as many"));
  }
  if (shared) shared_.emplace(shared->begin(), shared->end());
  CheckUnique(indices);
  arrays_.resize(2 * (count + 1) + (shared ? 2 : 1) * count + 1);
  const batchplan_packed_layout layout = {
      .cu_seqlens = arrays_.data(),
      .cu_seqlens_padded = arrays_.data() + count + 1,
      .cu_seqlens_padded_per_rank = nullptr,
      .max_seqlen = &max_seqlen_,
      .max_seqlen_padded = &max_seqlen_padded_,
      .cu_new = nullptr,
      .least_shared = shared ? arrays_.data() + 2 * (count + 1) + count : nullptr,
      .subtree_end = nullptr};
  const batchplan_status status = batchplan_compute_layout(
      BATCHPLAN_BACKEND_HOST, lengths_.data(), shared ? shared_->data() : nullptr, num_sequences(),
      &options_, &layout, nullptr, nullptr);
  if (status != BATCHPLAN_OK) Refuse(batchplan_status_string(status));
  for (size_t i = 0; i < count; ++i) {
    arrays_[2 * (count + 1) + i] = static_cast<int32_t>(indices[i]);
    last_index_ = std::max(last_index_, int64_t{indices[i]});
  }
}

batchplan_row RowLayout::RowOf(const int32_t* arrays) const {
  return {.cu_seqlens = arrays,
          .cu_seqlens_padded = arrays + num_sequences() + 1,
          .num_sequences = num_sequences(),
          .options = options_,
          .context_parallel_rank = 0,
          .least_shared = shares() ? IndicesOf(arrays) + num_sequences() : nullptr};
}

const int32_t* RowLayout::IndicesOf(const int32_t* arrays) const {
  return arrays + 2 * (num_sequences() + 1);
}

bool RowLayout::HasTokens(std::span<const int64_t> offsets, int64_t num_tokens,
                          bool gathered) const {
  const int32_t* const indices = IndicesOf(arrays_.data());
  for (size_t place = 0; place < lengths_.size(); ++place) {
    const size_t row = gathered ? place : static_cast<size_t>(indices[place]);
    if (row + 1 >= offsets.size()) return false;
    const int64_t begin = offsets[row];
    const int64_t end = offsets[row + 1];
    if (begin < 0 || end > num_tokens || end < begin || end - begin < lengths_[place]) return false;
  }
  return true;
}

std::vector<int32_t> RowLayout::SubtreeEnds() const {
  std::vector<int32_t> ends(options_.row_width);
  // Those that the ends are found by are written anew.
  std::vector<int32_t> written(arrays_.size());
  const batchplan_row row = RowOf(written.data());
  batchplan_packed_layout layout = {};
  layout.cu_seqlens = const_cast<int32_t*>(row.cu_seqlens);
  layout.cu_seqlens_padded = const_cast<int32_t*>(row.cu_seqlens_padded);
  layout.least_shared = const_cast<int32_t*>(row.least_shared);
  layout.subtree_end = ends.data();
  const batchplan_status status = batchplan_compute_layout(
      BATCHPLAN_BACKEND_HOST, lengths_.data(), shares() ? shared_->data() : nullptr,
      num_sequences(), &options_, &layout, nullptr, nullptr);
  if (status != BATCHPLAN_OK) Refuse(batchplan_status_string(status));
  return ends;
}

}  // namespace batchplan::python
