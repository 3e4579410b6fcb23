#include "server/planner/request/useful_sizes.h"

#include <algorithm>
#include <limits>

#include "server/planner/request/cost.h"

namespace batchplan {
namespace {

// The most that any planned sequence, in a micro-batch of its own, costs a rank of a group of
// `ranks` ranks for each of its tokens, without the exchange.
double MostOfAToken(const CostModel& model, uint32_t ranks, uint32_t shortest, uint32_t longest) {
  return (model.per_token + model.per_token_squared * longest) / ranks +
         (model.per_sequence + model.per_microbatch) / shortest;
}

}  // namespace

std::vector<GroupLimits> WithoutDearSizes(const PlanOptions& options, size_t index,
                                          std::span<const GroupLimits> limits,
                                          const PlannedLengths& planned) {
  std::vector<GroupLimits> all(limits.begin(), limits.end());
  const CostModel& model = options.cost_model;
  if (model.exchange.empty() || limits.size() == 1 ||
      options.passes[index].sharding == Sharding::kMegatronDynamicCp) {
    return all;
  }
  uint32_t shortest = std::numeric_limits<uint32_t>::max();
  uint32_t longest = 0;
  for (const uint32_t length : planned.lengths) {
    if (length > 0) shortest = std::min(shortest, length);
    longest = std::max(longest, length);
  }
  if (longest == 0) return all;
  const double most = MostOfAToken(model, limits.front().ranks, shortest, longest);
  std::vector<double> exchanges;
  for (const GroupLimits& size : limits) exchanges.push_back(ExchangePerToken(model, size.ranks));
  std::sort(exchanges.begin(), exchanges.end());
  for (const double exchange : exchanges) {
    // Among sizes that exchange no more than this one, the largest that holds every sequence.
    const auto holder = std::find_if(limits.rbegin(), limits.rend(), [&](const GroupLimits& size) {
      return ExchangePerToken(model, size.ranks) <= exchange &&
             AlignUp(longest, size.multiple) <= size.widest_row();
    });
    if (holder == limits.rend()) continue;
    const double enough = holder->ranks;
    std::vector<GroupLimits> left;
    for (const GroupLimits& size : limits) {
      const double all_ranks = std::min<double>(size.ranks, enough) / enough;
      if (left.empty() ||
          ExchangePerToken(model, size.ranks) * all_ranks <= kDearExchange * (most + exchange)) {
        left.push_back(size);
      }
    }
    return left;
  }
  return all;
}

std::vector<GroupLimits> UsefulSizes(const PlanOptions& options, size_t index,
                                     std::span<const GroupLimits> limits,
                                     const PlannedLengths& planned) {
  std::vector<GroupLimits> useful = WithoutDearSizes(options, index, limits, planned);
  const size_t sequences = std::max<size_t>(planned.lengths.size(), 1);
  const uint32_t longest = *std::max_element(planned.lengths.begin(), planned.lengths.end());
  const auto holder = std::find_if(useful.begin(), useful.end(), [&](const GroupLimits& size) {
    return AlignUp(longest, size.multiple) <= size.widest_row();
  });
  const size_t needed = std::min<size_t>(holder - useful.begin() + 1, useful.size());
  const size_t kept = std::max<size_t>(needed, kMostItemSizes / sequences);
  if (kept < useful.size())
    useful.erase(useful.begin() + static_cast<ptrdiff_t>(kept), useful.end());
  return useful;
}

}  // namespace batchplan
