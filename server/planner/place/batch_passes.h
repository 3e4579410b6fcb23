// The passes of a request over its mini-batches: which pass leads, which passes keep to
// mini-batches, and how many micro-batches all of them may have.

#ifndef BATCHPLAN_SERVER_PLANNER_PLACE_BATCH_PASSES_H_
#define BATCHPLAN_SERVER_PLANNER_PLACE_BATCH_PASSES_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "server/planner/pass/pass.h"
#include "server/planner/pass/placement.h"
#include "server/planner/request/manifest.h"

namespace batchplan {

// The micro-batches and slots of a number of placements.
struct PlacedTotal {
  uint64_t microbatches = 0;
  uint64_t slots = 0;

  void Add(const Placement& placement) {
    microbatches += placement.microbatches.size();
    slots += placement.slots;
  }
};

// Views its arguments.
class BatchPasses {
 public:
  // `passes`, one at least, are those of the request, in its order.
  BatchPasses(std::span<const Pass> passes, const SequenceLists& mini_batches);

  std::span<const Pass> all() const { return all_; }
  size_t NumberOf(const Pass& pass) const { return &pass - all_.data(); }

  // The passes that keep to mini-batches. If none does: all passes, with the whole batch as their
  // one mini-batch.
  std::span<const Pass* const> within() const { return within_; }
  // The other passes. Each goes over all mini-batches at once.
  std::span<const Pass* const> over_all() const { return over_all_; }
  // The first of within(). It is placed first, and the other passes keep sequences on its ranks.
  const Pass& lead() const { return *within_.front(); }

  // How many mini-batches within() has, and number k of them.
  size_t mini_batches() const { return is_whole_ ? 1 : lists_.size(); }
  std::span<const SequenceIndex> MiniBatch(size_t k) const {
    return is_whole_ ? sequences() : lists_[k];
  }
  std::span<const SequenceIndex> sequences() const { return lists_.all(); }
  // Other passes over these mini-batches.
  BatchPasses With(std::span<const Pass> passes) const { return BatchPasses(passes, lists_); }

  // InvalidArgument, naming the limit, if the empty micro-batches of all passes and mini-batches
  // are too many, or if their pipelines are too much to simulate.
  absl::Status CheckTotal(const PlacedTotal& total) const;
  // CheckTotal of the fewest micro-batches that the passes' minimums and multiples ask for.
  absl::Status CheckFewest() const;

 private:
  const std::span<const Pass> all_;
  const SequenceLists& lists_;
  std::vector<const Pass*> within_;
  std::vector<const Pass*> over_all_;
  bool is_whole_;
};

// For each of `passes`, the number of its twin: the earliest pass that is filled alike, so that one
// placement is right for both. Passes before number `first` are nobody's twins. A pass without an
// earlier twin has its own number.
std::vector<size_t> TwinsOf(std::span<const Pass* const> passes, size_t first);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_PLACE_BATCH_PASSES_H_
