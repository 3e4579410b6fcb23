#include "server/planner/overlong.h"

#include "absl/strings/str_cat.h"
#include "server/planner/align.h"

namespace batchplan {

LengthLimit FindLengthLimit(const PlanOptions& options, const std::vector<uint32_t>& multiples) {
  LengthLimit limit;
  for (size_t pass = 0; pass < options.passes.size(); ++pass) {
    const uint32_t longest =
        AlignDown(options.passes[pass].max_tokens_per_microbatch, multiples[pass]);
    if (pass == 0 || longest < limit.length) limit = {.length = longest, .pass = pass};
  }
  return limit;
}

absl::StatusOr<PlannedLengths> ApplyOverlongPolicy(const Manifest& manifest,
                                                   const PlanOptions& options, const Groups& groups,
                                                   const LengthLimit& limit) {
  PlannedLengths planned;
  planned.lengths.assign(manifest.lengths.begin(), manifest.lengths.end());
  std::vector<bool> dropped(groups.size(), false);
  for (uint32_t i = 0; i < planned.lengths.size(); ++i) {
    uint32_t& length = planned.lengths[i];
    if (length == 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("manifest.lengths[", i, "] is 0; every sequence has at least one token"));
    }
    if (length <= limit.length) continue;
    switch (options.overlong) {
      case OverlongPolicy::kReject:
        return absl::InvalidArgumentError(absl::StrCat(
            "manifest.lengths[", i, "] is ", length, ", but passes[", limit.pass,
            "].max_tokens_per_microbatch is ", options.passes[limit.pass].max_tokens_per_microbatch,
            " and holds sequences of up to ", limit.length,
            " tokens; raise it, or set overlong to truncate or drop"));
      case OverlongPolicy::kTruncate:
        planned.excluded.push_back({i, length, ExclusionReason::kTruncated});
        length = limit.length;
        break;
      case OverlongPolicy::kDrop:
        length = 0;
        if (!groups.empty()) dropped[groups[SequenceIndex(i)]] = true;
        break;
    }
  }
  if (options.overlong != OverlongPolicy::kDrop) return planned;
  for (uint32_t i = 0; i < planned.lengths.size(); ++i) {
    uint32_t& length = planned.lengths[i];
    if (!groups.empty() && dropped[groups[SequenceIndex(i)]]) length = 0;
    if (length == 0) {
      planned.excluded.push_back({i, manifest.lengths[i], ExclusionReason::kDropped});
    }
  }
  return planned;
}

}  // namespace batchplan
