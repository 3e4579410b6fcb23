// Placements on groups that all have one size, as a topology without dynamic_context gets them.

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
// have one of these sizes, a group is what AssignAll calls a rank. So it places the passes, as
// Pass::OnOneSize makes them, and the placements are then put on groups. Their slots are in the
// order that the pass asks for. On pipelines each rank has an order of its own.
//
// Views what it is made from. For one thread.
class FixedSizes {
 public:
  // By the pass's number and mini-batch.
  using Placements = std::vector<std::vector<Placement>>;

  FixedSizes(const BatchPasses& passes, uint64_t seed, const Allowance& allowance);

  // Which sizes are tried, and how hard.
  enum class Trial {
    // A few, those that could be the fastest, with the least effort.
    kFew,
    // All with the least effort, and those about as fast as the best of them with the effort of the
    // request.
    kAll,
    // All with the least effort, and then with the effort of the request.
    kAllInFull,
  };

  // Placements of `items`, mini-batch k, of which the leading pass makes `problem`, in the order in
  // which they were found. A size is tried if it could be faster than `limit` and than every
  // placement found before. None if no size has a placement, or once a stop is requested.
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
  // By number in the lead's sizes, as far as one was tried: the lead on that size alone.
  std::map<uint32_t, std::optional<Pass>> leads_;
};

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_PLACE_FIXED_SIZES_H_
