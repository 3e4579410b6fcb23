#include "server/planner/rows.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "server/planner/align.h"

namespace batchplan {

uint32_t RowCapacity(const PassOptions& pass, uint32_t length_multiple) {
  return pass.rows == RowPadding::kBuckets
             ? pass.buckets.back()
             : AlignDown(pass.max_tokens_per_microbatch, length_multiple);
}

absl::Status CheckBucketsFit(const PassOptions& pass, uint32_t length_multiple,
                             uint32_t longest_aligned, absl::string_view where) {
  if (pass.rows != RowPadding::kBuckets) return absl::OkStatus();
  for (size_t i = 0; i < pass.buckets.size(); ++i) {
    if (pass.buckets[i] % length_multiple != 0) {
      return absl::InvalidArgumentError(
          absl::StrCat(where, ".packed.buckets[", i, "] is ", pass.buckets[i],
                       ", not a multiple of the length multiple ", length_multiple));
    }
  }
  if (longest_aligned > pass.buckets.back()) {
    return absl::InvalidArgumentError(absl::StrCat(
        where, ".packed.buckets ends at ", pass.buckets.back(), ", but the longest sequence takes ",
        longest_aligned, " tokens; add a bucket that holds it"));
  }
  return absl::OkStatus();
}

void PadRows(const PassOptions& pass, uint32_t length_multiple, std::vector<uint32_t>& rows) {
  if (pass.rows == RowPadding::kNone) return;
  const uint32_t longest = *std::max_element(rows.begin(), rows.end());
  const uint32_t capacity = RowCapacity(pass, length_multiple);
  for (uint32_t& row : rows) {
    if (row == 0) continue;
    switch (pass.rows) {
      case RowPadding::kNone:
        break;
      case RowPadding::kLongest:
        row = longest;
        break;
      case RowPadding::kCapacity:
        row = capacity;
        break;
      case RowPadding::kBuckets:
        row = *std::lower_bound(pass.buckets.begin(), pass.buckets.end(), row);
        break;
    }
  }
}

}  // namespace batchplan
