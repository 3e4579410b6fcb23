// Groups that differ in size: many ways to fill slots, of which the best is kept.
//
// Lockstep. (1) If all but a few items fit a smallest group, the solver of ranks fills smallest
// groups (lockstep_ranks.h). (2) Slots are filled in turn, each with the time that wastes least
// (fill_in_turn.h); that mixes sizes as the lengths ask for. With fixed costs this is repeated as
// if a slot cost more, for fewer slots. (3) The fewest slots, all of one time, which bisection
// lowers (lockstep_groups.h). (4) The caller's candidates, as they are and improved. Everything is
// improved by exchanges between groups (even_out_groups.h). At last the shortest slot of the best
// plan is dissolved into the others as long as that shortens the step, and at more than
// Effort::kFast a few random slots are filled anew.
//
// Accumulated. Large groups come first, small ones fill up the ranks (accumulated_groups.h); more
// slots are tried as long as items don't fit. If the result is not near the bound, slots in
// lockstep are tried too.
//
// Pipelines. Slots in lockstep of several numbers and lengths, since alike slots are better there;
// their time is simulated, in the best of a few orders.
//
// A dozen items are solved exactly (best_of_few.h). If nothing is found, all divisions of a few
// items are searched (place_few.h), and then Megatron-LM's scheduler is tried. Solutions are kept
// as a Pareto front of time and number of slots, since a plan with fewer slots may be hardly
// slower.

#include "server/planner/groups/solve_context.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <numeric>
#include <tuple>
#include <utility>
#include <vector>

#include "server/planner/groups/accumulated_groups.h"
#include "server/planner/groups/best_of_few.h"
#include "server/planner/groups/context_items.h"
#include "server/planner/groups/even_out_groups.h"
#include "server/planner/groups/fill_in_turn.h"
#include "server/planner/groups/filled_groups.h"
#include "server/planner/groups/lockstep_groups.h"
#include "server/planner/groups/lockstep_ranks.h"
#include "server/planner/groups/megatron_slots.h"
#include "server/planner/groups/place_few.h"
#include "server/planner/pass/context_time.h"
#include "server/planner/time/find_order.h"
#include "server/planner/time/simulator.h"
#include "server/planner/time/step_clock.h"

namespace batchplan {
namespace {

// Ticks to place an item once.
constexpr uint64_t kTicksASolvedItem = 150;
// Beyond this many items there are always some that fill what the longer ones leave.
constexpr size_t kMany = 65536;
// Up to this many items a search through all divisions is worth it for any constraint.
constexpr size_t kFew = 16;
// Placements of items that such a search tries for each number of slots.
constexpr uint64_t kNodes = 100'000;
// Up to this many items, ways that seldom help are tried too.
constexpr size_t kItemsForAllWays = 256;
// Visits of MegatronSlots if nothing else finds slots.
constexpr uint64_t kLastVisits = 10'000'000;
// The most numbers of slots that are tried if slots are hard to fill.
constexpr int kMostCounts = 24;
// If micro-batches have no fixed cost, fewer slots are preferred to 1 / kHardlySlower of the time.
constexpr Cost kHardlySlower = 1000;

// How much is tried, by effort.
struct Extent {
  // Times of a slot filled in turn; ticks for all of a plan's slots.
  uint32_t tries = 0;
  uint64_t try_ticks = 0;
  uint64_t even_out_steps = 0;  // an item
  uint64_t most_steps = 0;
  uint64_t refills = 0;
  uint64_t refill_ticks = 0;
};

Extent ExtentOf(Effort effort) {
  switch (effort) {
    case Effort::kFast:
      return {.tries = 8, .try_ticks = 10'000'000, .even_out_steps = 10, .most_steps = 500'000};
    case Effort::kThorough:
      return {.tries = 64,
              .try_ticks = 400'000'000,
              .even_out_steps = 400,
              .most_steps = 40'000'000,
              .refills = 1000,
              .refill_ticks = 1'000'000'000};
    default:
      return {.tries = 16,
              .try_ticks = 24'000'000,
              .even_out_steps = 60,
              .most_steps = 2'000'000,
              .refills = 60,
              .refill_ticks = 8'000'000};
  }
}

class Solver {
 public:
  Solver(const ContextProblem& problem, std::span<const ContextSlots> candidates,
         const Allowance& allowance)
      : problem_(problem),
        candidates_(candidates),
        allowance_(allowance),
        all_(problem, allowance),
        extent_(ExtentOf(Affordable(problem.effort, allowance))),
        everything_(all_.size()),
        fewest_(all_.all_fit() ? FewestContextSlots(problem) : 0) {
    std::iota(everything_.begin(), everything_.end(), 0u);
  }

  std::optional<SolvedContext> Run() {
    if (!all_.all_fit()) return std::nullopt;
    if (std::optional<std::vector<FilledSlot>> best = BestOfFew(all_, allowance_)) {
      // If empty groups are not allowed, nothing else keeps the limits either.
      if (best->empty() && !problem_.allow_empty) return std::nullopt;
      Keep(*std::move(best));
    }
    if (accumulated()) {
      const Allowance::Part part(allowance_, 2);
      FindAccumulated();
    }
    const Cost bound = accumulated() && many() ? ContextBound(problem_) : 0;
    if (found_.empty() || found_.front().time > bound + bound / 128) FindLockstep();
    for (size_t i = 0; i < candidates_.size(); ++i) {
      if (allowance_.stop_requested()) return std::nullopt;
      const std::optional<Cost> time = Keep(FromContextSlots(all_, candidates_[i]), i);
      if (time) most_ = std::min(most_, *time);
      std::vector<FilledSlot> improved = FromContextSlots(all_, candidates_[i]);
      Improve(improved);
      Keep(std::move(improved));
    }
    if (found_.empty()) FindAny();
    if (allowance_.stop_requested() || found_.empty()) return std::nullopt;
    Dissolve();
    Refill();
    const Found& best = Fewest();
    return SolvedContext{.slots = ToContextSlots(all_, best.slots),
                         .candidate = best.candidate,
                         .tried = std::move(tried_)};
  }

 private:
  // What equally fast slots are compared by, less being better: sequences on few ranks, and no rank
  // idle.
  struct Spread {
    uint64_t empty = 0;    // groups
    uint64_t squares = 0;  // the sum of the squares of the groups' ranks
    friend bool operator>(const Spread& a, const Spread& b) {
      return std::tie(a.empty, a.squares) > std::tie(b.empty, b.squares);
    }
  };

  // Slots and their time.
  struct Found {
    std::vector<FilledSlot> slots;
    Cost time = 0;
    Spread spread = {};
    std::optional<size_t> candidate = {};
  };

  bool accumulated() const {
    return problem_.pipeline == nullptr &&
           problem_.synchronization == Synchronization::kAccumulated;
  }
  bool many() const { return all_.size() > kMany; }
  bool AnyCount() const {
    return problem_.slots.minimum <= fewest_ && problem_.slots.multiple == 1;
  }
  uint64_t steps() const {
    return std::min(extent_.even_out_steps * all_.size(), extent_.most_steps);
  }

  Spread SpreadOf(const std::vector<FilledSlot>& slots) const {
    Spread spread;
    for (const FilledSlot& slot : slots) {
      for (const FilledGroup& group : slot) {
        if (group.items.empty()) ++spread.empty;
        spread.squares += uint64_t{all_.ranks(group.size)} * all_.ranks(group.size);
      }
    }
    return spread;
  }

  // Adds slots to the Pareto front of time and number of slots. Ties go to the slots with fewer
  // empty and smaller groups. Entries more than kHardlySlower behind the fastest are dropped.
  // Returns their time; none if their number is not allowed. `candidate`: the number of the
  // candidate, if they are one.
  std::optional<Cost> Keep(std::vector<FilledSlot> slots,
                           std::optional<size_t> candidate = std::nullopt) {
    if (slots.empty() || problem_.slots.RoundUp(slots.size()) != slots.size()) return std::nullopt;
    if (!found_.empty() && !AffordsTimeOf(slots)) return std::nullopt;
    const Cost time = TimeOf(slots);
    NoteSlots(slots.size(), static_cast<double>(time), tried_);
    const Spread spread = SpreadOf(slots);
    for (const Found& found : found_) {
      const bool alike = found.time == time && found.slots.size() == slots.size();
      if (alike && found.spread > spread) continue;
      if (found.time <= time && found.slots.size() <= slots.size()) return time;
    }
    std::erase_if(found_, [&](const Found& found) {
      return found.time >= time && found.slots.size() >= slots.size();
    });
    const auto slower =
        std::find_if(found_.begin(), found_.end(), [&](const auto& f) { return f.time > time; });
    found_.insert(
        slower,
        {.slots = std::move(slots), .time = time, .spread = spread, .candidate = candidate});
    const Cost fastest = found_.front().time;
    const Cost hardly_slower = problem_.has_fixed_costs() ? 0 : fastest / kHardlySlower;
    while (found_.back().time > fastest + hardly_slower) found_.pop_back();
    return time;
  }

  // The entry with fewest slots that is not slower than a candidate.
  const Found& Fewest() const {
    size_t fewest = found_.size() - 1;
    while (fewest > 0 && found_[fewest].time > most_) --fewest;
    return found_[fewest];
  }

  // Whether the simulations of TimeOf can be paid.
  bool AffordsTimeOf(const std::vector<FilledSlot>& slots) const {
    if (problem_.pipeline == nullptr) return true;
    return allowance_.Affords((kTicksAWork + kTicksToPlaceAWork) * 4 * slots.size() *
                              problem_.pipeline->virtual_stages());
  }

  // The time of slots. On a pipeline, brings them into the order in which they are done soonest.
  Cost TimeOf(std::vector<FilledSlot>& slots) const {
    if (problem_.pipeline == nullptr) return problem_.clock().Of(Timed(slots)).time;
    PipelineSimulator simulator(*problem_.pipeline, static_cast<uint32_t>(slots.size()),
                                PipelineSimulator::Mode::kTime, allowance_);
    std::vector<double> costs;
    costs.reserve(slots.size());
    for (const FilledSlot& slot : slots) {
      costs.push_back(static_cast<double>(problem_.per_microbatch + SlowestTime(slot)));
    }
    const bool looks = allowance_.Affords(simulator.ticks_each() * kQuickOrders);
    const PipelineOrder order = QuickOrder(simulator, costs, costs, looks ? costs.size() : 0);
    allowance_.Spend(simulator.ticks());
    std::vector<FilledSlot> ordered;
    for (const uint32_t slot : order.order) ordered.push_back(std::move(slots[slot]));
    slots = std::move(ordered);
    return ContextTime(problem_, ToContextSlots(all_, slots), allowance_);
  }

  // TimedContextSlots of ToContextSlots of the slots.
  TimedSlots Timed(const std::vector<FilledSlot>& slots) const {
    TimedSlots timed;
    std::vector<const FilledGroup*> groups;
    for (const FilledSlot& slot : slots) {
      groups.clear();
      for (const FilledGroup& group : slot) groups.push_back(&group);
      std::stable_sort(
          groups.begin(), groups.end(),
          [](const FilledGroup* a, const FilledGroup* b) { return a->size > b->size; });
      for (const FilledGroup* group : groups) {
        timed.Add(all_.ranks(group->size), problem_.per_microbatch + group->time);
      }
      timed.Close();
    }
    return timed;
  }

  void Improve(std::vector<FilledSlot>& slots) const {
    if (slots.empty() || accumulated() || many()) return;
    EvenOutGroups(all_, steps(), allowance_, slots);
  }

  void KeepRaised(std::vector<FilledSlot> slots) {
    if (slots.empty() || !RaiseSlots(all_, slots)) return;
    Improve(slots);
    Keep(std::move(slots));
  }
  // The time of the item alone in its fastest size.
  Cost FastestTime(uint32_t item) const {
    Cost fastest = std::numeric_limits<Cost>::max();
    for (uint32_t size = 0; size < all_.sizes(); ++size) {
      if (all_.MayTake(size, item)) fastest = std::min(fastest, all_.Alone(size, item));
    }
    return fastest;
  }
  // Whether the smallest size holds every item.
  bool AllFitSmallest() const {
    return std::ranges::all_of(everything_, [&](uint32_t item) { return all_.MayTake(0, item); });
  }
  void KeepOnRanks(LargeGroups large) {
    std::vector<FilledSlot> slots = LockstepOnRanks(all_, large, allowance_);
    Improve(slots);
    Keep(std::move(slots));
  }
  void KeepEven(uint64_t slots) {
    if (slots > all_.size() && !problem_.allow_empty) return;
    std::vector<FilledSlot> even = LeastEvenSlots(all_, everything_, slots, allowance_);
    Improve(even);
    Keep(std::move(even));
  }

  std::vector<FilledSlot> InTurn(Cost per_slot, Cost most, uint32_t tries) const {
    const uint64_t each = kTicksASolvedItem * 2 * all_.size();
    const auto affordable = static_cast<uint32_t>(
        std::min<uint64_t>(extent_.try_ticks / std::max<uint64_t>(each, 1), tries));
    return FillInTurn(all_, everything_,
                      {.per_slot = per_slot, .tries = std::max(affordable, 3u), .most = most},
                      allowance_);
  }

  void FindLockstep() {
    const Cost longest = std::numeric_limits<Cost>::max();
    if (problem_.pipeline == nullptr && !accumulated()) {
      const bool all_fit_smallest = AllFitSmallest();
      // If all items fit, the solver of ranks has made candidates of the smallest size.
      if (!all_fit_smallest || candidates_.empty()) KeepOnRanks(LargeGroups::kAlone);
      if (!all_fit_smallest && problem_.effort != Effort::kFast) KeepOnRanks(LargeGroups::kFilled);
    }
    std::vector<FilledSlot> first = InTurn(problem_.per_microbatch, longest, extent_.tries);
    if (allowance_.stop_requested()) return;
    const uint64_t count = first.size();
    const Cost mean = count > 0 ? LockstepTime(all_, first) / count : 0;
    KeepRaised(std::move(first));
    const bool slow = all_.size() * kTicksASolvedItem * 16 > extent_.try_ticks;
    if ((problem_.effort == Effort::kFast || slow) && !found_.empty()) return;
    // Without a pipeline, the last ways hardly ever find better slots for many items.
    const bool tries_all = problem_.pipeline != nullptr || all_.size() <= kItemsForAllWays ||
                           problem_.effort == Effort::kThorough;
    // Fewer slots, if their number or their fixed cost matters.
    const bool has_fewest = !found_.empty() && found_.front().slots.size() <= fewest_;
    if ((tries_all || !has_fewest) &&
        (!AnyCount() || problem_.has_fixed_costs() || problem_.pipeline != nullptr)) {
      for (const Cost part : {Cost{32}, Cost{8}, Cost{2}}) {
        if (mean == 0 || allowance_.spent() || allowance_.stop_requested()) break;
        if (part == 2 && !tries_all) break;
        KeepRaised(InTurn(problem_.per_microbatch + mean / part, longest, extent_.tries / 2));
      }
    }
    if (problem_.pipeline != nullptr) {
      // On a pipeline slots are better alike.
      for (Cost most = mean / 2; most <= 2 * mean && mean > 0; most += mean / 4 + 1) {
        if (allowance_.spent() || allowance_.stop_requested()) break;
        KeepRaised(InTurn(problem_.per_microbatch, most, extent_.tries / 2));
      }
    }
    // Slots of one common time.
    std::vector<uint64_t> counts = {fewest_};
    if (tries_all || found_.empty()) {
      counts.push_back(problem_.slots.RoundUp(fewest_ + 1));
      counts.push_back(problem_.slots.RoundUp(count));
      counts.push_back(std::max(problem_.slots.RoundDown(count), fewest_));
    }
    if (problem_.pipeline != nullptr) {
      for (uint64_t more = 1; more <= 4; ++more) {
        counts.push_back(problem_.slots.RoundUp(fewest_ + more * (fewest_ / 4 + 1)));
      }
    }
    std::sort(counts.begin(), counts.end());
    counts.erase(std::unique(counts.begin(), counts.end()), counts.end());
    for (const uint64_t slots : counts) {
      if (!found_.empty() && (allowance_.spent() || allowance_.stop_requested())) return;
      KeepEven(slots);
    }
  }

  // More slots as long as they are hard to fill, and then a few more.
  void FindAccumulated() {
    const Cost fixed = fewest_ * problem_.per_microbatch;
    Cost most = ContextBound(problem_) - fixed;
    for (const uint32_t item : everything_) most = std::max(most, FastestTime(item));
    int found = 0;
    uint64_t slots = fewest_;
    const int enough = many() ? 1 : 3;
    for (int count = 0; count < kMostCounts && found < enough; ++count) {
      if (allowance_.stop_requested() || (found > 0 && allowance_.spent())) return;
      std::vector<FilledSlot> filled = FillAccumulated(all_, slots, most, steps(), allowance_);
      allowance_.Spend(kTicksASolvedItem * all_.size());
      if (!filled.empty()) ++found;
      const Cost before = found_.empty() ? 0 : found_.front().time;
      Keep(std::move(filled));
      if (found > 1 && before == found_.front().time) return;
      slots =
          problem_.slots.RoundUp(slots + 1 + (found > 0 ? slots / 32 : (count + 1) * slots / 64));
    }
  }

  // For slots within the limits that are hard to find.
  void FindAny() {
    uint64_t slots = problem_.slots.RoundUp(1);
    for (int count = 0; count < kMostCounts && slots <= all_.size(); ++count) {
      if (allowance_.stop_requested() || !found_.empty()) return;
      if (all_.size() <= kFew) {
        std::vector<FilledSlot> placed = PlaceFew(all_, slots, kNodes, allowance_);
        Improve(placed);
        Keep(std::move(placed));
      } else {
        KeepEven(slots);
      }
      slots = problem_.slots.RoundUp(slots + 1 + (all_.size() <= kFew ? 0 : count * slots / 4));
    }
    if (!found_.empty()) return;
    const std::optional<ContextSlots> megatron = MegatronSlots(problem_, allowance_, kLastVisits);
    if (!megatron) return;
    std::vector<FilledSlot> improved = FromContextSlots(all_, *megatron);
    Improve(improved);
    Keep(std::move(improved));
  }

  // Dissolves the shortest slot into the others as long as that shortens the step.
  void Dissolve() {
    if (accumulated() || many() || problem_.pipeline != nullptr || !problem_.has_fixed_costs()) {
      return;
    }
    while (!allowance_.spent() && !allowance_.stop_requested()) {
      const uint64_t fewer = found_.front().slots.size() - 1;
      if (fewer < fewest_ || problem_.slots.RoundUp(fewer) != fewer) return;
      allowance_.Spend(kTicksASolvedItem * all_.size());
      const Cost time = found_.front().time;
      std::vector<FilledSlot> slots = found_.front().slots;
      if (!DissolveShortest(all_, allowance_, slots)) return;
      Improve(slots);
      Keep(std::move(slots));
      if (found_.front().time == time) return;
    }
  }

  void Refill() {
    if (accumulated() || problem_.pipeline != nullptr || extent_.refills == 0) return;
    std::vector<FilledSlot> slots = Fewest().slots;
    const uint64_t parts = std::max<uint64_t>(allowance_.left() / extent_.refill_ticks, 1);
    const Allowance::Part part(allowance_, parts);
    RefillSlots(all_, extent_.refills, allowance_, slots);
    Keep(std::move(slots));
  }

  const ContextProblem& problem_;
  const std::span<const ContextSlots> candidates_;
  const Allowance& allowance_;
  const ContextItems all_;
  const Extent extent_;
  std::vector<uint32_t> everything_;
  const uint64_t fewest_;
  // The front, by ascending time and descending number of slots.
  std::vector<Found> found_;
  TriedSlots tried_;
  // The time of the fastest candidate.
  Cost most_ = std::numeric_limits<Cost>::max();
};

}  // namespace

std::optional<SolvedContext> SolveContext(const ContextProblem& problem,
                                          std::span<const ContextSlots> candidates,
                                          const Allowance& allowance) {
  return Solver(problem, candidates, allowance).Run();
}

}  // namespace batchplan
