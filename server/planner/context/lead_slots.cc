#include "server/planner/context/lead_slots.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <optional>
#include <utility>

#include "server/planner/assign/reference_methods.h"
#include "server/planner/context/context_time.h"
#include "server/planner/context/megatron_slots.h"
#include "server/planner/context/order_slots.h"
#include "server/planner/context/solve/solve_context.h"

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

std::vector<ContextSlots> LeadSlots(const Pass& pass, const ContextProblem& problem,
                                    const SequenceLists& items, size_t k, FixedSizes& fixed,
                                    const Allowance& allowance) {
  std::vector<ContextSlots> found;
  // More than one are of use where they can be compared.
  const auto is_of_use = [&](const ContextSlots& slots) {
    return found.empty() || AffordsContextTime(problem, slots, allowance);
  };
  const auto add = [&](ContextSlots slots) {
    OrderSlots(problem, pass.order(), allowance, slots);
    found.push_back(std::move(slots));
  };
  Cost limit = std::numeric_limits<Cost>::max();
  if (TriesReferences(pass.effort(), items.size())) {
    std::optional<ContextSlots> slots = MegatronSlots(problem, allowance, kMostVisits);
    if (slots) {
      add(*std::move(slots));
      limit = ContextTime(problem, found.front(), allowance);
    }
  }
  const FixedSizes::Trial trial = TrialOf(pass, items.size());
  for (ContextSlots& slots : fixed.Place(problem, items, k, limit, trial, allowance)) {
    if (!is_of_use(slots)) break;
    // On a pipeline each rank has an order of its own.
    if (problem.pipeline == nullptr) OrderSlots(problem, pass.order(), allowance, slots);
    found.push_back(std::move(slots));
  }
  std::optional<ContextSlots> solved = SolveContext(problem, found, allowance);
  if (solved && is_of_use(*solved)) {
    add(*std::move(solved));
    std::rotate(found.begin(), found.end() - 1, found.end());
  }
  if (allowance.stop_requested()) return {};
  std::vector<std::pair<Cost, size_t>> by_time;
  by_time.reserve(found.size());
  for (size_t i = 0; i < found.size(); ++i) {
    by_time.emplace_back(ContextTime(problem, found[i], allowance), i);
  }
  std::sort(by_time.begin(), by_time.end());
  std::vector<ContextSlots> sorted;
  sorted.reserve(found.size());
  for (const auto& [time, i] : by_time) sorted.push_back(std::move(found[i]));
  return sorted;
}

}  // namespace batchplan
