// Placements on groups that all have one size, as without dynamic_context.

#ifndef BATCHPLAN_SERVER_PLANNER_PLACE_FIXED_SIZES_H_
#define BATCHPLAN_SERVER_PLANNER_PLACE_FIXED_SIZES_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "server/planner/pass/context_problem.h"
#include "server/planner/pass/pass.h"
#include "server/planner/pass/placement.h"
#include "server/planner/place/batch_passes.h"
#include "server/planner/request/allowance.h"
#include "server/planner/request/cost.h"
#include "server/planner/request/manifest.h"

namespace batchplan {

// Tries the sizes of the leading pass that divide the pool and hold every sequence. If all groups
// have one size, a group is what AssignAll calls a rank. So AssignAll places the passes that
// Pass::OnOneSize makes, and the placements are then put on groups. Slots are in the order that the
// pass asks for; on pipelines each rank has an order of its own.
//
// Views its arguments. For one thread.
class FixedSizes {
 public:
  // By the pass's number and mini-batch.
  using Placements = std::vector<std::vector<Placement>>;

  FixedSizes(const BatchPasses& passes, uint64_t seed, const Allowance& allowance);

  // Which sizes are tried, and how hard.
  enum class Trial {
    // The few that could be the fastest, with the least effort.
    kFew,
    // All with the least effort, and those about as fast as the best of them with the effort of the
    // request.
    kAll,
    // All with the least effort, and then with the effort of the request.
    kAllInFull,
  };

  // Placements of mini-batch k in the order in which they were found. `problem` is the leading
  // pass's problem of its `items`. A size is tried if it could be faster than `limit` and than
  // every placement found before. Empty if no size has a placement, or once a stop is requested.
  std::vector<Placement> Place(const ContextProblem& problem, const SequenceLists& items, size_t k,
                               Cost limit, Trial trial);

  // All passes over all mini-batches, on groups of the size with which the lead is fastest. None if
  // no size makes the lead faster than `limit`, or once a stop is requested.
  std::optional<Placements> PlaceAll(Cost limit) const;

 private:
  // Mini-batch k on groups of the size; none if nothing is found.
  std::optional<Placement> PlaceIn(uint32_t size, Effort effort,
                                   std::span<const SequenceIndex> sequences, size_t k);
  // All passes over all mini-batches on groups of the size; none if a pass has no such groups, or
  // if nothing is found.
  std::optional<Placements> PlaceAllIn(uint32_t size, Effort effort) const;

  const BatchPasses& passes_;
  const Pass& lead_;
  const uint64_t seed_;
  const Allowance& allowance_;
  // By number in the lead's sizes, for the sizes tried so far: the lead on that size alone.
  std::map<uint32_t, std::optional<Pass>> leads_;
};

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_PLACE_FIXED_SIZES_H_
