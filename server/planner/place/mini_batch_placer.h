// One mini-batch placed in all passes that keep to mini-batches.

#ifndef BATCHPLAN_SERVER_PLANNER_PLACE_MINI_BATCH_PLACER_H_
#define BATCHPLAN_SERVER_PLANNER_PLACE_MINI_BATCH_PLACER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/planner/balance/lockstep_findings.h"
#include "server/planner/pass/pass.h"
#include "server/planner/pass/placement.h"
#include "server/planner/place/kinds_apart.h"
#include "server/planner/ranks/search_context.h"
#include "server/planner/ranks/search_ranks.h"
#include "server/planner/request/allowance.h"
#include "server/planner/request/manifest.h"

namespace batchplan {

// Places one mini-batch at a time in all passes. The request's first pass says how sequences get to
// ranks. The first pass here leads: its micro-batches are found together with the ranks. The other
// passes then divide each rank's share into micro-batches.
//
// Views its arguments. For one thread.
class MiniBatchPlacer {
 public:
  // `passes`, one at least, keep to mini-batches; `first` is the request's first pass, which may be
  // none of them. `sequences` are those of the whole request. `findings` are those of each
  // mini-batch, or empty.
  MiniBatchPlacer(std::vector<const Pass*> passes, const Pass& first, uint64_t seed,
                  uint64_t sequences, const Allowance& allowance,
                  std::span<LockstepFindings> findings = {});
  MiniBatchPlacer(const MiniBatchPlacer&) = delete;
  MiniBatchPlacer& operator=(const MiniBatchPlacer&) = delete;

  // Places mini-batch k on the ranks that the manifest gives, or else by the first pass's sharding.
  // Goes another way if that sharding leaves a pass without a legal number of micro-batches, or a
  // rank with needless empty ones.
  //
  // InvalidArgument, naming pass, mini-batch and limits, if no way is found; Cancelled if a stop is
  // requested.
  absl::StatusOr<MiniBatchPlacement> Place(size_t k,
                                           std::span<const SequenceIndex> mini_batch) const;

  // Places mini-batch k with equally many units on each rank, or one more. Errors as by Place.
  absl::StatusOr<MiniBatchPlacement> PlaceEvenly(size_t k,
                                                 std::span<const SequenceIndex> mini_batch) const;

  // Places mini-batch k with unit u on rank rank_of[u]. Errors as by Place.
  absl::StatusOr<MiniBatchPlacement> PlaceAt(size_t k, const Units& units,
                                             std::span<const uint32_t> rank_of,
                                             PackingWork work = PackingWork::kAsAsked) const;

  // The terms, without `accept`, of a search for the ranks of these mini-batches' units; and the
  // work of each try, little enough for thousands of them.
  RankSearch SearchTerms(std::span<const Units> mini_batches) const;
  PackingWork WorkOfTries() const;

 private:
  // In mini-batch k. Views `where`.
  SearchContext ContextOf(size_t k, absl::string_view where,
                          PackingWork work = PackingWork::kAsAsked) const;
  // On the ranks that the manifest gives.
  absl::StatusOr<MiniBatchPlacement> PlaceAsGiven(size_t k,
                                                  std::span<const SequenceIndex> mini_batch) const;
  void AddTreePresets(std::span<const SequenceIndex> mini_batch,
                      std::vector<Placement>& placements) const;
  absl::StatusOr<MiniBatchPlacement> PlaceByKinds(size_t k,
                                                  std::span<const SequenceIndex> mini_batch) const;
  absl::StatusOr<Placement> PlaceApart(size_t k, std::span<const KindClass> classes) const;
  void AddPhasesApart(size_t k, std::span<const SequenceIndex> mini_batch,
                      std::vector<Placement>& placements) const;
  absl::StatusOr<MiniBatchPlacement> PlaceAnywhere(size_t k,
                                                   std::span<const SequenceIndex> mini_batch) const;
  std::vector<Placement> PresetsWithLoads(size_t k,
                                          std::span<const SequenceIndex> mini_batch) const;
  absl::StatusOr<MiniBatchPlacement> PlaceWithinLimits(
      size_t k, std::span<const SequenceIndex> mini_batch) const;
  // For a joint pass (Pass::is_joint): the best of rows made for it, and of plans made without
  // regard to what joins rows.
  absl::StatusOr<MiniBatchPlacement> PlaceJoint(size_t k,
                                                std::span<const SequenceIndex> mini_batch) const;
  absl::StatusOr<MiniBatchPlacement> PlaceBest(size_t k,
                                               std::span<const SequenceIndex> mini_batch) const;
  absl::StatusOr<MiniBatchPlacement> BestBalanced(size_t k,
                                                  std::span<const SequenceIndex> mini_batch,
                                                  bool& missed) const;
  bool MayBeReplaced(size_t k, MiniBatchPlacement placement) const;
  // `asked`, or another placement if `asked` is refused or has needless empty micro-batches.
  absl::StatusOr<MiniBatchPlacement> OrOtherwise(size_t k,
                                                 std::span<const SequenceIndex> mini_batch,
                                                 absl::StatusOr<MiniBatchPlacement> asked) const;
  absl::StatusOr<MiniBatchPlacement> EvenIfFewerEmpty(size_t k,
                                                      std::span<const SequenceIndex> mini_batch,
                                                      MiniBatchPlacement asked) const;
  absl::StatusOr<MiniBatchPlacement> Search(size_t k, std::span<const SequenceIndex> mini_batch,
                                            absl::Status reason) const;
  absl::StatusOr<MiniBatchPlacement> Fill(size_t k, MiniBatchPlacement placed,
                                          PackingWork work = PackingWork::kAsAsked) const;
  bool KeepsEmptyEven() const;

  const std::vector<const Pass*> passes_;
  const std::vector<size_t> twins_;  // of the passes that follow the lead
  const Pass& first_;
  const uint64_t seed_;
  const uint64_t sequences_;
  const Allowance& allowance_;
  const std::span<LockstepFindings> findings_;
  // The leading pass with the sharding of the request's first pass.
  const Pass* lead_;
  std::optional<Pass> stand_in_;
  // The passes of the reference presets, where the best placement is looked for.
  std::vector<Pass> references_;
  // Each places as a request that names one of the presets.
  std::vector<std::unique_ptr<MiniBatchPlacer>> presets_;
};

// InvalidArgument if a pass can't be planned over these sequences, whatever ranks they have.
absl::Status CheckPossible(const Pass& pass, std::span<const SequenceIndex> sequences,
                           absl::string_view where);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_PLACE_MINI_BATCH_PLACER_H_
