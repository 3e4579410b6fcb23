#include "server/planner/align.h"

#include <numeric>

#include "absl/strings/str_cat.h"

namespace batchplan {

absl::StatusOr<uint32_t> LengthMultiple(const Topology& topology, const PassOptions& pass,
                                        absl::string_view where) {
  const uint64_t tensor = topology.sequence_parallel ? topology.tensor_parallel : 1;
  const uint64_t context =
      topology.context_parallel > 1 ? 2 * uint64_t{topology.context_parallel} : 1;
  // At most 2^33 * 2^32: the sizes are at most 2^16 each.
  const uint64_t multiple = std::lcm(uint64_t{pass.length_multiple}, context * tensor);
  if (multiple > pass.max_tokens_per_microbatch) {
    return absl::InvalidArgumentError(
        absl::StrCat(where, ".max_tokens_per_microbatch is ", pass.max_tokens_per_microbatch,
                     ", below the length multiple ", multiple, " (length_multiple ",
                     pass.length_multiple, ", topology ", context * tensor, "): no sequence fits"));
  }
  return static_cast<uint32_t>(multiple);
}

}  // namespace batchplan
