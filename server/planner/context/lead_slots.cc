#include "server/planner/context/lead_slots.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <optional>
#include <utility>

#include "server/planner/assign/reference_methods.h"
#include "server/planner/context/megatron_slots.h"
#include "server/planner/context/solve/solve_context.h"
#include "server/planner/order.h"
#include "server/planner/step_time.h"

namespace batchplan {
namespace {

// Looks of MegatronSlots at items and groups.
constexpr uint64_t kMostVisits = 6'000'000;
// Items up to which every fixed size is tried at the effort of the request.
constexpr size_t kItemsInFull = 1024;

FixedSizes::Trial TrialOf(const Pass& pass, size_t items) {
  if (!TriesReferences(pass.effort(), items)) return FixedSizes::Trial::kFew;
  return items <= kItemsInFull ? FixedSizes::Trial::kAllInFull : FixedSizes::Trial::kAll;
}

}  // namespace

std::vector<Placement> LeadSlots(const Pass& pass, const ContextProblem& problem,
                                 const SequenceLists& items, const ItemNumbers& numbers, size_t k,
                                 FixedSizes& fixed, const Allowance& allowance) {
  std::vector<Placement> found;
  // More than one are of use where they can be compared.
  const auto is_of_use = [&](const Placement& placement) {
    return found.empty() || AffordsStepTime(pass, placement, allowance);
  };
  Cost limit = std::numeric_limits<Cost>::max();
  if (TriesReferences(pass.effort(), items.size())) {
    const std::optional<ContextSlots> slots = MegatronSlots(problem, allowance, kMostVisits);
    if (slots) {
      found.push_back(PlacementOf(pass, items, *slots));
      found.back().method = kMegatronMethod;
      OrderMicrobatches(pass, pass.order(), found.front(), allowance);
      limit = StepTime(pass, found.front(), allowance);
    }
  }
  const FixedSizes::Trial trial = TrialOf(pass, items.size());
  for (Placement& placement : fixed.Place(problem, items, k, limit, trial)) {
    if (!is_of_use(placement)) break;
    found.push_back(std::move(placement));
  }
  std::vector<ContextSlots> candidates;
  candidates.reserve(found.size());
  for (const Placement& placement : found) candidates.push_back(numbers.SlotsOf(pass, placement));
  if (const std::optional<SolvedContext> solved = SolveContext(problem, candidates, allowance)) {
    Placement placement = PlacementOf(pass, items, *solved);
    if (solved->candidate) placement.method = found[*solved->candidate].method;
    if (is_of_use(placement)) {
      OrderMicrobatches(pass, pass.order(), placement, allowance);
      found.insert(found.begin(), std::move(placement));
    }
  }
  if (allowance.stop_requested()) return {};
  std::vector<std::pair<Cost, size_t>> by_time;
  by_time.reserve(found.size());
  TriedSlots tried;
  for (size_t i = 0; i < found.size(); ++i) {
    by_time.emplace_back(StepTime(pass, found[i], allowance), i);
    NoteSlots(found[i].tried, tried);
    NoteSlots(found[i].slots, pass.cost().ToUnits(by_time.back().first), tried);
  }
  std::sort(by_time.begin(), by_time.end());
  std::vector<Placement> sorted;
  sorted.reserve(found.size());
  for (const auto& [time, i] : by_time) {
    found[i].tried = tried;
    sorted.push_back(std::move(found[i]));
  }
  return sorted;
}

}  // namespace batchplan
