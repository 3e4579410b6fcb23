#include "server/checker/check_exclusions.h"

#include <cstddef>
#include <cstdint>

#include "server/checker/violation.h"

namespace batchplan::checker {

absl::Status CheckExclusions(const Expectation& expected, const Plan& plan) {
  for (size_t e = 0; e < plan.excluded.size(); ++e) {
    const ExcludedSequence& listed = plan.excluded[e];
    if (e > 0 && listed.index <= plan.excluded[e - 1].index) {
      return Violation("excluded[", e, "].index is ", listed.index, ", not above ",
                       plan.excluded[e - 1].index, " before it");
    }
    if (e >= expected.excluded.size() || listed.index < expected.excluded[e].index) {
      return Violation("excluded[", e, "] lists sequence ", listed.index,
                       ", which the overlong policy does not touch at the length limit ",
                       expected.length_limit);
    }
    const ExcludedSequence& wanted = expected.excluded[e];
    if (listed.index > wanted.index) {
      return Violation("excluded[", e, "] lists sequence ", listed.index,
                       ", but the overlong policy touches sequence ", wanted.index, " of ",
                       wanted.length, " tokens before it");
    }
    if (listed.length != wanted.length) {
      return Violation("excluded[", e, "].length is ", listed.length, ", but sequence ",
                       wanted.index, " has ", wanted.length, " tokens");
    }
    if (listed.reason != wanted.reason) {
      return Violation("excluded[", e, "].reason is ", static_cast<uint32_t>(listed.reason),
                       ", but the overlong policy gives ", static_cast<uint32_t>(wanted.reason));
    }
  }
  if (plan.excluded.size() < expected.excluded.size()) {
    const ExcludedSequence& missing = expected.excluded[plan.excluded.size()];
    return Violation("excluded does not list sequence ", missing.index, " of ", missing.length,
                     " tokens, which the overlong policy touches at the length limit ",
                     expected.length_limit);
  }
  return absl::OkStatus();
}

}  // namespace batchplan::checker
