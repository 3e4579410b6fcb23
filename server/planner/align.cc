#include "server/planner/align.h"

#include <numeric>

#include "absl/strings/str_cat.h"

namespace batchplan {

absl::StatusOr<uint32_t> LengthMultiple(const Topology& topology, const PassOptions& pass,
                                        absl::string_view where) {
  const uint64_t tensor = topology.sequence_parallel ? topology.tensor_parallel : 1;
  const uint64_t context =
      topology.context_parallel > 1 ? 2 * uint64_t{topology.context_parallel} : 1;
  const uint64_t demanded = context * tensor;
  // Beyond the budget already, or below 2^32 like the other, so that the multiple fits 64 bits.
  const uint64_t multiple = demanded > pass.max_tokens_per_microbatch
                                ? demanded
                                : std::lcm(uint64_t{pass.length_multiple}, demanded);
  if (multiple > pass.max_tokens_per_microbatch) {
    return absl::InvalidArgumentError(
        absl::StrCat(where, ".max_tokens_per_microbatch is ", pass.max_tokens_per_microbatch,
                     ", below the length multiple ", multiple, " (length_multiple ",
                     pass.length_multiple, ", topology ", demanded, "): no sequence fits"));
  }
  return static_cast<uint32_t>(multiple);
}

}  // namespace batchplan
