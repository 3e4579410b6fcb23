#include "server/planner/pass_limits.h"

#include <cstddef>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"

namespace batchplan {

absl::StatusOr<PassLimits> PassLimitsOf(const PlanOptions& options) {
  PassLimits limits;
  for (size_t i = 0; i < options.passes.size(); ++i) {
    const std::string where = absl::StrCat("passes[", i, "]");
    if (options.topology.dynamic_context) {
      absl::StatusOr<std::vector<GroupLimits>> groups =
          GroupLimitsOf(options.topology, options.passes[i], where);
      if (!groups.ok()) return groups.status();
      limits.groups.push_back(*std::move(groups));
    } else {
      const absl::StatusOr<uint32_t> multiple =
          LengthMultiple(options.topology, options.passes[i], where);
      if (!multiple.ok()) return multiple.status();
      limits.multiples.push_back(*multiple);
    }
  }
  limits.longest = options.topology.dynamic_context ? FindContextLimit(limits.groups)
                                                    : FindLengthLimit(options, limits.multiples);
  return limits;
}

}  // namespace batchplan
