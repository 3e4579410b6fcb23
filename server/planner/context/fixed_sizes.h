// Placements on groups that all have one size, as a topology without dynamic_context gets them.

#ifndef BATCHPLAN_SERVER_PLANNER_CONTEXT_FIXED_SIZES_H_
#define BATCHPLAN_SERVER_PLANNER_CONTEXT_FIXED_SIZES_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "server/planner/allowance.h"
#include "server/planner/assign/batch_passes.h"
#include "server/planner/assign/mini_batch_placer.h"
#include "server/planner/context/context_problem.h"
#include "server/planner/lengths.h"
#include "server/planner/manifest.h"
#include "server/planner/mini_batches.h"
#include "server/planner/options.h"
#include "server/planner/pass.h"
#include "server/planner/placement.h"

namespace batchplan {

// The sizes of the leading pass that divide the pool and hold every sequence. Each is planned as a
// topology of its own. The placements are on groups.
//
// Views what it is made from. For one thread.
class FixedSizes {
 public:
  // By the pass's number and mini-batch.
  using Placements = std::vector<std::vector<Placement>>;

  // `passes` are those of `options`.
  FixedSizes(const Manifest& manifest, const PlanOptions& options, const BatchPasses& passes,
             const PlannedLengths& planned, Alignments& alignments, const Groups& groups,
             size_t mini_batches);

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

  // Placements of `items`, mini-batch k, of which the leading pass makes `problem`. A size is tried
  // if it could be faster than `limit` and than all that was found before it. On pipelines the
  // groups of each rank are in the order that the pass asks for.
  std::vector<Placement> Place(const ContextProblem& problem, const SequenceLists& items, size_t k,
                               Cost limit, Trial trial, const Allowance& allowance);

  // All passes over all mini-batches on groups of that size of the leading pass, ordered as by
  // Place. None if another pass has no such groups, or nothing is found.
  std::optional<Placements> PlaceAll(uint32_t size, Effort effort,
                                     const SequenceLists& mini_batches,
                                     const Allowance& allowance) const;

 private:
  // What an effort makes of a size.
  struct OneSize {
    PlanOptions options;
    Allowance allowance;
    std::unique_ptr<Pass> instance;
    std::unique_ptr<MiniBatchPlacer> placer;
  };

  // Null if there is no plan on groups of that size alone.
  const OneSize* Get(uint32_t size, Effort effort, const Allowance& allowance);
  std::unique_ptr<OneSize> Make(uint32_t size, Effort effort, const Allowance& allowance) const;
  // The request of a topology whose groups have this many ranks, without passes.
  PlanOptions OptionsOf(uint32_t ranks, Effort effort) const;
  // options.passes[pass] there.
  PassOptions PassOf(size_t pass, uint32_t capacity) const;
  // Mini-batch k on groups of the size; none if nothing is found.
  std::optional<Placement> PlaceIn(uint32_t size, Effort effort,
                                   std::span<const SequenceIndex> sequences, size_t k,
                                   const Allowance& allowance);

  const Manifest& manifest_;
  const PlanOptions& options_;
  const std::span<const Pass> passes_;
  const size_t lead_;
  const Pass& pass_;
  const PlannedLengths& planned_;
  Alignments& alignments_;
  const Groups& groups_;
  const size_t mini_batches_;
  // By number in the problem's sizes and effort, where one was needed.
  std::map<std::pair<uint32_t, Effort>, std::unique_ptr<OneSize>> sizes_;
};

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_CONTEXT_FIXED_SIZES_H_
