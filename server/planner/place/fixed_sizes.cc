#include "server/planner/place/fixed_sizes.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/numeric/int128.h"
#include "absl/status/statusor.h"
#include "server/planner/pass/context_time.h"
#include "server/planner/pass/order.h"
#include "server/planner/pass/step_time.h"
#include "server/planner/place/assign.h"
#include "server/planner/place/group_placement.h"
#include "server/planner/place/mini_batch_placer.h"
#include "server/planner/ranks/reference_methods.h"

namespace batchplan {
namespace {

// With more items, Trial::kFew tries only one size.
constexpr size_t kItemsOfFewSizes = 8192;
// Sizes within 1 / kAboutAsFast of the least time are about as fast.
constexpr Cost kAboutAsFast = 128;

// A lower bound on the time of slots of that size alone: the mean rank's work with the fixed costs
// of the fewest slots, or the costliest item; on a pipeline the least time of that work.
Cost LeastTime(const ContextProblem& problem, uint32_t size, uint64_t fewest_slots) {
  absl::uint128 sum = 0;
  Cost most = 0;
  for (const Cost cost : problem.sizes[size].costs) {
    sum += cost;
    most = std::max(most, cost);
  }
  const Cost mean = absl::Uint128Low64(sum * problem.sizes[size].ranks / problem.pool);
  const Cost work = mean + fewest_slots * problem.per_microbatch;
  const Cost costliest = most + problem.per_microbatch;
  if (problem.pipeline == nullptr) return std::max(work, costliest);
  return problem.clock().Bound(work, problem.per_microbatch, costliest);
}

bool HoldsAll(const ContextSize& size) {
  return std::all_of(size.tokens.begin(), size.tokens.end(),
                     [&](uint32_t tokens) { return tokens <= size.capacity; });
}

// `placement`, a placement on the ranks of `on_ranks` (Pass::OnOneSize), put on groups of `pass`.
Placement FromRanks(const Pass& pass, const Pass& on_ranks, Placement placement,
                    const Allowance& allowance) {
  const uint32_t size = on_ranks.topology().context_parallel;
  if (pass.pipeline() != nullptr) {
    // Each rank has an order of its own.
    OrderMicrobatches(on_ranks, on_ranks.order(), placement, allowance);
    return OnGroups(placement, size);
  }
  PutCostliestRowsFirst(on_ranks, placement);
  Placement on_groups = OnGroups(placement, size);
  on_groups.tried = std::move(placement.tried);
  OrderMicrobatches(pass, pass.order(), on_groups, allowance);
  return on_groups;
}

// Receives what AssignAll makes of `on_ranks`, and keeps it on groups of `passes`.
class Keeper : public PlacementSink {
 public:
  Keeper(std::span<const Pass> passes, std::span<const Pass> on_ranks, const Allowance& allowance)
      : passes_(passes), on_ranks_(on_ranks), allowance_(allowance), placements_(passes.size()) {}

  void Add(size_t pass, size_t /*mini_batch*/, Placement placement) override {
    placements_[pass].push_back(
        FromRanks(passes_[pass], on_ranks_[pass], std::move(placement), allowance_));
  }
  void Clear() override { placements_.assign(passes_.size(), {}); }

  FixedSizes::Placements& placements() { return placements_; }

 private:
  const std::span<const Pass> passes_;
  const std::span<const Pass> on_ranks_;
  const Allowance& allowance_;
  FixedSizes::Placements placements_;
};

}  // namespace

FixedSizes::FixedSizes(const BatchPasses& passes, uint64_t seed, const Allowance& allowance)
    : passes_(passes), lead_(passes.lead()), seed_(seed), allowance_(allowance) {}

std::optional<Placement> FixedSizes::PlaceIn(uint32_t size, Effort effort,
                                             std::span<const SequenceIndex> sequences, size_t k) {
  const auto [lead, is_new] = leads_.try_emplace(size);
  if (is_new) lead->second = lead_.OnOneSize(size);
  if (!lead->second) return std::nullopt;
  const Pass on_ranks = lead->second->With(effort);
  const MiniBatchPlacer placer({&on_ranks}, on_ranks, seed_, on_ranks.aligned().size(), allowance_);
  absl::StatusOr<MiniBatchPlacement> placed = placer.Place(k, sequences);
  if (!placed.ok()) return std::nullopt;
  return FromRanks(lead_, on_ranks, std::move(placed->lead()), allowance_);
}

std::vector<Placement> FixedSizes::Place(const ContextProblem& problem, const SequenceLists& items,
                                         size_t k, Cost limit, Trial trial) {
  struct Candidate {
    Cost least = 0;  // no slots of that size are faster
    Cost time = std::numeric_limits<Cost>::max();
    uint32_t size = 0;
  };
  std::vector<Candidate> candidates;
  const uint64_t fewest_slots = FewestContextSlots(problem);
  for (uint32_t size = 0; size < problem.sizes.size(); ++size) {
    if (allowance_.stop_requested()) return {};
    if (!HoldsAll(problem.sizes[size])) continue;
    candidates.push_back({.least = LeastTime(problem, size, fewest_slots), .size = size});
  }
  std::stable_sort(candidates.begin(), candidates.end(),
                   [](const Candidate& a, const Candidate& b) { return a.least < b.least; });
  std::vector<Placement> found;
  const auto place = [&](Candidate& candidate, Effort effort) {
    if (candidate.least >= limit || allowance_.stop_requested()) return;
    const Allowance::Part part(allowance_, 2);
    std::optional<Placement> placed = PlaceIn(candidate.size, effort, items.all(), k);
    if (!placed) return;
    candidate.time = StepTime(lead_, *placed, allowance_);
    limit = std::min(limit, candidate.time);
    found.push_back(*std::move(placed));
  };
  const size_t most = trial == Trial::kFew ? std::max<size_t>(kItemsOfFewSizes / items.size(), 1)
                                           : candidates.size();
  for (Candidate& candidate : candidates) {
    if (found.size() < most) place(candidate, Effort::kFast);
  }
  if (trial == Trial::kFew || lead_.effort() == Effort::kFast) return found;
  std::stable_sort(candidates.begin(), candidates.end(),
                   [](const Candidate& a, const Candidate& b) { return a.time < b.time; });
  const Cost best = candidates.empty() ? 0 : candidates.front().time;
  for (Candidate& candidate : candidates) {
    if (trial == Trial::kAll && candidate.time - best > best / kAboutAsFast) break;
    if (!allowance_.spent()) place(candidate, lead_.effort());
  }
  return found;
}

std::optional<FixedSizes::Placements> FixedSizes::PlaceAllIn(uint32_t size, Effort effort) const {
  std::vector<Pass> on_ranks;
  for (const Pass& pass : passes_.all()) {
    if (allowance_.stop_requested()) return std::nullopt;
    const size_t own = pass.SizeOf(lead_.sizes()[size].ranks);
    if (own == pass.sizes().size()) return std::nullopt;
    const std::optional<Pass> one = pass.OnOneSize(own);
    if (!one) return std::nullopt;
    on_ranks.push_back(one->With(effort));
  }
  Keeper keeper(passes_.all(), on_ranks, allowance_);
  if (!AssignAll(passes_.With(on_ranks), seed_, allowance_, keeper).ok()) return std::nullopt;
  return std::move(keeper.placements());
}

std::optional<FixedSizes::Placements> FixedSizes::PlaceAll(Cost limit) const {
  const bool in_full =
      TriesReferences(lead_.effort(), passes_.sequences().size() / passes_.mini_batches());
  std::optional<Placements> best;
  for (uint32_t size = 0; size < lead_.sizes().size(); ++size) {
    std::optional<Placements> placed = PlaceAllIn(size, in_full ? lead_.effort() : Effort::kFast);
    if (allowance_.stop_requested()) return std::nullopt;
    if (!placed) continue;
    Cost time = 0;
    for (const Placement& placement : (*placed)[passes_.NumberOf(lead_)]) {
      time += StepTime(lead_, placement, allowance_);
    }
    if (time >= limit) continue;
    limit = time;
    best = std::move(placed);
  }
  return best;
}

}  // namespace batchplan
