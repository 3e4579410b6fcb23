#include "server/planner/place/lead_slots.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "server/planner/groups/megatron_slots.h"
#include "server/planner/groups/solve_context.h"
#include "server/planner/pass/order.h"
#include "server/planner/pass/step_time.h"
#include "server/planner/ranks/reference_methods.h"

namespace batchplan {
namespace {

// The most visits of MegatronSlots.
constexpr uint64_t kMostVisits = 6'000'000;
// Up to this many items every fixed size is tried at the request's effort.
constexpr size_t kItemsInFull = 1024;

// Rows are narrowed to the capacity over each of these.
constexpr uint64_t kNarrower[] = {2, 4};

// `problem` of `pass` with rows of at most these widths, by size. A size that then holds no item
// stays, unused.
ContextProblem WithRows(const Pass& pass, const ContextProblem& problem,
                        std::span<const uint64_t> widths) {
  ContextProblem narrower = problem;
  for (size_t s = 0; s < widths.size(); ++s) {
    narrower.sizes[s].capacity = widths[s];
    narrower.sizes[s].whole_row = pass.CostOfWholeRow(widths[s], s);
  }
  return narrower;
}

// For each size 1 / part of its capacity; for the largest at least its longest item.
std::vector<uint64_t> NarrowedRows(const ContextProblem& problem, uint64_t part) {
  std::vector<uint64_t> widths;
  for (const ContextSize& size : problem.sizes) {
    widths.push_back(std::max<uint64_t>(size.capacity / part, 1));
  }
  const ContextSize& largest = problem.sizes.back();
  const uint64_t longest = *std::ranges::max_element(largest.tokens);
  widths.back() = std::min(std::max(widths.back(), longest), largest.capacity);
  return widths;
}

// The longest row of each size in `placement`; the capacity for sizes that it does not have.
std::vector<uint64_t> LongestRows(const Pass& pass, const ContextProblem& problem,
                                  const Placement& placement) {
  std::vector<uint64_t> widths(problem.sizes.size(), 0);
  for (size_t m = 0; m < placement.widths.size(); ++m) {
    uint64_t& width = widths[pass.SizeOf(placement.context_sizes[m])];
    width = std::max<uint64_t>(width, placement.widths[m]);
  }
  for (size_t s = 0; s < widths.size(); ++s) {
    if (widths[s] == 0) widths[s] = problem.sizes[s].capacity;
  }
  return widths;
}

// The first of equally fast ones; each time is worked out once.
const Placement& FastestOf(const Pass& pass, std::span<const Placement> placements,
                           const Allowance& allowance) {
  size_t fastest = 0;
  Cost least = std::numeric_limits<Cost>::max();
  for (size_t i = 0; i < placements.size(); ++i) {
    const Cost time = StepTime(pass, placements[i], allowance);
    if (time < least) {
      fastest = i;
      least = time;
    }
  }
  return placements[fastest];
}

FixedSizes::Trial TrialOf(const Pass& pass, size_t items) {
  if (!TriesReferences(pass.effort(), items)) return FixedSizes::Trial::kFew;
  return items <= kItemsInFull ? FixedSizes::Trial::kAllInFull : FixedSizes::Trial::kAll;
}

}  // namespace

std::vector<Placement> LeadSlots(const Pass& pass, const ContextProblem& problem,
                                 const SequenceLists& items, const ItemNumbers& numbers, size_t k,
                                 FixedSizes& fixed, const Allowance& allowance) {
  std::vector<Placement> found;
  // More than one is of use only if they can be compared.
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
  // Candidate i was made by methods[i].
  const auto solve = [&](const ContextProblem& asked, std::span<const ContextSlots> candidates,
                         std::span<const absl::string_view> methods) {
    const std::optional<SolvedContext> solved = SolveContext(asked, candidates, allowance);
    if (!solved) return;
    Placement placement = PlacementOf(pass, items, *solved);
    if (solved->candidate) placement.method = methods[*solved->candidate];
    if (!is_of_use(placement)) return;
    OrderMicrobatches(pass, pass.order(), placement, allowance);
    found.insert(found.begin(), std::move(placement));
  };
  std::vector<ContextSlots> candidates;
  std::vector<absl::string_view> methods;
  candidates.reserve(found.size());
  for (const Placement& placement : found) {
    candidates.push_back(numbers.SlotsOf(pass, placement));
    methods.push_back(placement.method);
  }
  solve(problem, candidates, methods);
  if (pass.options().rows == RowPadding::kLongest && pass.effort() != Effort::kFast) {
    for (const uint64_t part : kNarrower) {
      if (allowance.spent() || allowance.stop_requested()) break;
      solve(WithRows(pass, problem, NarrowedRows(problem, part)), {}, {});
    }
    if (!found.empty() && !allowance.spent() && !allowance.stop_requested()) {
      const Placement& fastest = FastestOf(pass, found, allowance);
      const ContextProblem narrower = WithRows(pass, problem, LongestRows(pass, problem, fastest));
      const ContextSlots slots = numbers.SlotsOf(pass, fastest);
      const absl::string_view method = fastest.method;
      solve(narrower, {&slots, 1}, {&method, 1});
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
