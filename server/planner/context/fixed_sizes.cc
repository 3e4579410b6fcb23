#include "server/planner/context/fixed_sizes.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "absl/numeric/int128.h"
#include "absl/status/statusor.h"
#include "server/planner/assign/assign.h"
#include "server/planner/context/context_sizes.h"
#include "server/planner/context/context_time.h"
#include "server/planner/context/group_placement.h"
#include "server/planner/order.h"
#include "server/planner/step_time.h"

namespace batchplan {
namespace {

// Items beyond which no second size is tried, where few are.
constexpr size_t kItemsOfFewSizes = 8192;
// The part of the least time by which sizes are about as fast.
constexpr Cost kAboutAsFast = 128;

// A time that no slots of that size alone are below: of the mean rank's work with the fixed costs
// of the fewest slots, and of the costliest item; on a pipeline the least that such work runs
// there.
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

// Puts the micro-batches of each rank into the order in which a topology of that size runs them.
void PutInOrder(const Pass& pass, const Allowance& allowance, Placement& placement) {
  if (pass.pipeline() == nullptr) {
    PutCostliestRowsFirst(pass, placement);
  } else {
    OrderMicrobatches(pass, pass.order(), placement, allowance);
  }
}

// Whether groups of that size alone have room for every sequence of a pass.
bool IsFixed(const Pass& pass, size_t size) {
  const GroupLimits& limits = pass.sizes()[size];
  const std::span<const uint32_t> aligned = pass.aligned(size);
  return pass.pool() % limits.ranks == 0 &&
         *std::max_element(aligned.begin(), aligned.end()) <= limits.capacity;
}

// Keeps what AssignAll makes, on groups of `ranks` ranks.
class Keeper : public PlacementSink {
 public:
  Keeper(std::span<const Pass> passes, uint32_t ranks, const Allowance& allowance)
      : passes_(passes), ranks_(ranks), allowance_(allowance), placements_(passes.size()) {}

  void Add(size_t pass, size_t /*mini_batch*/, Placement placement) override {
    PutInOrder(passes_[pass], allowance_, placement);
    placements_[pass].push_back(OnGroups(placement, ranks_));
  }
  void Clear() override { placements_.assign(passes_.size(), {}); }

  FixedSizes::Placements& placements() { return placements_; }

 private:
  const std::span<const Pass> passes_;
  const uint32_t ranks_;
  const Allowance& allowance_;
  FixedSizes::Placements placements_;
};

}  // namespace

FixedSizes::FixedSizes(const Manifest& manifest, const PlanOptions& options,
                       const BatchPasses& passes, const PlannedLengths& planned,
                       Alignments& alignments, const Groups& groups, size_t mini_batches)
    : manifest_(manifest),
      options_(options),
      passes_(passes.all()),
      lead_(passes.NumberOf(passes.lead())),
      pass_(passes.lead()),
      planned_(planned),
      alignments_(alignments),
      groups_(groups),
      mini_batches_(mini_batches) {}

const FixedSizes::OneSize* FixedSizes::Get(uint32_t size, Effort effort,
                                           const Allowance& allowance) {
  const auto [at, is_new] = sizes_.try_emplace({size, effort});
  if (is_new) at->second = Make(size, effort, allowance);
  return at->second.get();
}

PlanOptions FixedSizes::OptionsOf(uint32_t ranks, Effort effort) const {
  PlanOptions options = options_;
  options.topology.dynamic_context.reset();
  options.topology.data_parallel = pass_.pool() / ranks;
  options.topology.context_parallel = ranks;
  options.effort = effort;
  options.passes.clear();
  return options;
}

PassOptions FixedSizes::PassOf(size_t pass, uint32_t capacity) const {
  PassOptions options = options_.passes[pass];
  options.sharding = Sharding::kBalanced;
  options.max_tokens_per_microbatch = capacity;
  return options;
}

std::unique_ptr<FixedSizes::OneSize> FixedSizes::Make(uint32_t size, Effort effort,
                                                      const Allowance& allowance) const {
  const GroupLimits& limits = pass_.sizes()[size];
  if (!IsFixed(pass_, size)) return nullptr;
  auto one = std::make_unique<OneSize>();
  one->options = OptionsOf(limits.ranks, effort);
  one->options.passes = {PassOf(lead_, limits.capacity)};
  absl::StatusOr<Pass> instance = Pass::Create(manifest_, one->options, 0, {limits}, planned_,
                                               alignments_, groups_, mini_batches_);
  if (!instance.ok()) return nullptr;
  one->instance = std::make_unique<Pass>(*std::move(instance));
  one->allowance = allowance;
  one->placer = std::make_unique<MiniBatchPlacer>(
      std::vector<const Pass*>{one->instance.get()}, *one->instance, one->options.topology,
      one->options.mini_batches.seed, planned_.lengths.size(), one->allowance);
  return one;
}

std::optional<Placement> FixedSizes::PlaceIn(uint32_t size, Effort effort,
                                             std::span<const SequenceIndex> sequences, size_t k,
                                             const Allowance& allowance) {
  const OneSize* const one = Get(size, effort, allowance);
  if (one == nullptr) return std::nullopt;
  absl::StatusOr<MiniBatchPlacement> placed = one->placer->Place(k, sequences);
  if (!placed.ok()) return std::nullopt;
  PutInOrder(*one->instance, allowance, placed->lead());
  return OnGroups(placed->lead(), pass_.sizes()[size].ranks);
}

std::vector<Placement> FixedSizes::Place(const ContextProblem& problem, const SequenceLists& items,
                                         size_t k, Cost limit, Trial trial,
                                         const Allowance& allowance) {
  struct Candidate {
    Cost least = 0;  // no slots of that size are faster
    Cost time = std::numeric_limits<Cost>::max();
    uint32_t size = 0;
  };
  std::vector<Candidate> candidates;
  const uint64_t fewest_slots = FewestContextSlots(problem);
  for (uint32_t size = 0; size < problem.sizes.size(); ++size) {
    if (allowance.stop_requested()) return {};
    if (!HoldsAll(problem.sizes[size])) continue;
    candidates.push_back({.least = LeastTime(problem, size, fewest_slots), .size = size});
  }
  std::stable_sort(candidates.begin(), candidates.end(),
                   [](const Candidate& a, const Candidate& b) { return a.least < b.least; });
  std::vector<Placement> found;
  const auto place = [&](Candidate& candidate, Effort effort) {
    if (candidate.least >= limit || allowance.stop_requested()) return;
    const Allowance::Part part(allowance, 2);
    std::optional<Placement> placed = PlaceIn(candidate.size, effort, items.all(), k, allowance);
    if (!placed) return;
    candidate.time = StepTime(pass_, *placed, allowance);
    limit = std::min(limit, candidate.time);
    found.push_back(*std::move(placed));
  };
  const size_t most = trial == Trial::kFew ? std::max<size_t>(kItemsOfFewSizes / items.size(), 1)
                                           : candidates.size();
  for (Candidate& candidate : candidates) {
    if (found.size() < most) place(candidate, Effort::kFast);
  }
  if (trial == Trial::kFew || options_.effort == Effort::kFast) return found;
  std::stable_sort(candidates.begin(), candidates.end(),
                   [](const Candidate& a, const Candidate& b) { return a.time < b.time; });
  const Cost best = candidates.empty() ? 0 : candidates.front().time;
  for (Candidate& candidate : candidates) {
    if (trial == Trial::kAll && candidate.time - best > best / kAboutAsFast) break;
    if (!allowance.spent()) place(candidate, options_.effort);
  }
  return found;
}

std::optional<FixedSizes::Placements> FixedSizes::PlaceAll(uint32_t size, Effort effort,
                                                           const SequenceLists& mini_batches,
                                                           const Allowance& allowance) const {
  const uint32_t ranks = pass_.sizes()[size].ranks;
  PlanOptions options = OptionsOf(ranks, effort);
  for (size_t i = 0; i < passes_.size(); ++i) {
    const size_t own = passes_[i].SizeOf(ranks);
    if (own == passes_[i].sizes().size() || !IsFixed(passes_[i], own)) return std::nullopt;
    options.passes.push_back(PassOf(i, passes_[i].sizes()[own].capacity));
  }
  std::vector<Pass> instances;
  for (size_t i = 0; i < passes_.size(); ++i) {
    if (allowance.stop_requested()) return std::nullopt;
    const size_t own = passes_[i].SizeOf(ranks);
    absl::StatusOr<Pass> instance = Pass::Create(manifest_, options, i, {passes_[i].sizes()[own]},
                                                 planned_, alignments_, groups_, mini_batches_);
    if (!instance.ok()) return std::nullopt;
    instances.push_back(*std::move(instance));
  }
  Keeper keeper(instances, ranks, allowance);
  const absl::Status assigned = AssignAll(instances, options.topology, mini_batches,
                                          options.mini_batches.seed, allowance, keeper);
  if (!assigned.ok()) return std::nullopt;
  return std::move(keeper.placements());
}

}  // namespace batchplan
