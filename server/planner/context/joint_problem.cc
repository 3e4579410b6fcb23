#include "server/planner/context/joint_problem.h"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <optional>
#include <span>

#include "absl/status/statusor.h"

namespace batchplan {

std::optional<ContextProblem> JointProblem(ContextProblem lead, const SequenceLists& items,
                                           std::span<const ContextPass* const> passes,
                                           const Allowance& allowance) {
  for (const ContextPass* const pass : passes) {
    const absl::StatusOr<ContextProblem> other = pass->ProblemOf(items, allowance);
    if (!other.ok()) return std::nullopt;
    std::erase_if(lead.sizes, [&](const ContextSize& size) {
      return pass->SizeOf(size.ranks) == pass->limits().size();
    });
    if (lead.sizes.empty()) return std::nullopt;
    for (ContextSize& size : lead.sizes) {
      const ContextSize& others = other->sizes[pass->SizeOf(size.ranks)];
      size.capacity = std::min(size.capacity, others.capacity);
      for (size_t item = 0; item < items.size(); ++item) {
        size.tokens[item] = std::max(size.tokens[item], others.tokens[item]);
      }
    }
    if (lead.max_sequences == 0 ||
        (other->max_sequences > 0 && other->max_sequences < lead.max_sequences)) {
      lead.max_sequences = other->max_sequences;
    }
    lead.slots.minimum = std::max(lead.slots.minimum, other->slots.minimum);
    lead.slots.multiple = std::lcm(lead.slots.multiple, other->slots.multiple);
  }
  if (lead.pool % lead.sizes.front().ranks != 0) {
    if (lead.sizes.back().ranks != lead.pool) return std::nullopt;
    lead.sizes.erase(lead.sizes.begin(), lead.sizes.end() - 1);
  }
  return lead;
}

}  // namespace batchplan
