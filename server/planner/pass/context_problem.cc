#include "server/planner/pass/context_problem.h"

#include <algorithm>
#include <limits>

#include "server/planner/request/cancellation.h"

namespace batchplan {

absl::StatusOr<ContextProblem> ContextProblemOf(const Pass& pass, const SequenceLists& items,
                                                const Allowance& allowance) {
  constexpr uint64_t kTooMany = std::numeric_limits<uint32_t>::max();
  ContextProblem problem;
  problem.pool = pass.pool();
  problem.max_sequences = pass.options().max_sequences_per_microbatch;
  problem.per_microbatch = pass.cost().OfMicrobatch();
  problem.full_rows = pass.options().rows == RowPadding::kCapacity;
  problem.slots = pass.counts();
  problem.allow_empty = pass.allow_empty();
  problem.synchronization = pass.synchronization();
  problem.effort = pass.effort();
  problem.pipeline = pass.pipeline();
  for (size_t s = 0; s < pass.sizes().size(); ++s) {
    if (absl::Status status = CheckStop(allowance); !status.ok()) return status;
    ContextSize& size = problem.sizes.emplace_back();
    size.ranks = pass.sizes()[s].ranks;
    size.capacity = pass.sizes()[s].widest_row();
    size.whole_row = pass.CostOfWholeRow(size.capacity, s);
    size.tokens.reserve(items.size());
    size.costs.reserve(items.size());
    if (pass.rows_are_whole()) size.own_tokens.reserve(items.size());
    for (size_t item = 0; item < items.size(); ++item) {
      uint64_t tokens = 0;
      Cost cost = 0;
      for (const SequenceIndex sequence : items[item]) {
        const uint32_t length = pass.aligned(s)[sequence.value()];
        tokens += length;
        cost += pass.cost(s).OfSequence(length);
      }
      size.tokens.push_back(static_cast<uint32_t>(std::min(tokens, kTooMany)));
      size.costs.push_back(cost);
      if (pass.rows_are_whole()) size.own_tokens.push_back(pass.CostOfTokens(tokens, cost, s));
    }
  }
  if (pass.groups_keep_microbatch()) {
    problem.counts.reserve(items.size());
    for (size_t item = 0; item < items.size(); ++item) {
      problem.counts.push_back(static_cast<uint32_t>(items[item].size()));
    }
  }
  return problem;
}

}  // namespace batchplan
