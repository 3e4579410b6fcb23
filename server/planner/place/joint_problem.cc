#include "server/planner/place/joint_problem.h"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <optional>
#include <span>

#include "absl/status/statusor.h"

namespace batchplan {
namespace {

// capacity * tokens / of, rounded up: if such parts add up to at most the capacity, the tokens add
// up to at most `of`.
uint32_t PartOf(uint64_t capacity, uint32_t tokens, uint64_t of) {
  return tokens > of ? static_cast<uint32_t>(capacity + 1)
                     : static_cast<uint32_t>((capacity * tokens + of - 1) / of);
}

}  // namespace

std::optional<ContextProblem> JointProblem(ContextProblem lead, const SequenceLists& items,
                                           std::span<const Pass* const> passes,
                                           const Allowance& allowance) {
  for (const Pass* const pass : passes) {
    const absl::StatusOr<ContextProblem> other = ContextProblemOf(*pass, items, allowance);
    if (!other.ok()) return std::nullopt;
    std::erase_if(lead.sizes, [&](const ContextSize& size) {
      return pass->SizeOf(size.ranks) == pass->sizes().size();
    });
    if (lead.sizes.empty()) return std::nullopt;
    for (ContextSize& size : lead.sizes) {
      const ContextSize& others = other->sizes[pass->SizeOf(size.ranks)];
      const uint64_t capacity = std::min(size.capacity, others.capacity);
      for (size_t item = 0; item < items.size(); ++item) {
        size.tokens[item] = std::max(PartOf(capacity, size.tokens[item], size.capacity),
                                     PartOf(capacity, others.tokens[item], others.capacity));
      }
      size.capacity = capacity;
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
