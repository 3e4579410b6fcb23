// The search in lockstep, from a start to the end.
//
// Start. Slots whose longest item costs more than the mean micro-batch are filled first, one by one
// (head_slots.cc). All other items go by longest processing time first into the cheapest bin that
// holds them. Exchanges make room for items that find none. There are two starts: the first looks
// at costs alone; the second counts tokens too, and so leaves more room where there is little. If
// neither fits, the caller's packing is the start, its empty bins filled from the costliest. A
// great many items that leave little room start in bins that are filled alike (alike_bins.cc).
//
// Improvement. EvenOut moves and exchanges items (even_out.cc). If items may change their rank,
// each start gets a third of the steps, and the better one the rest. With equal counts the search
// first ignores the counts, then bins are dealt to ranks so that the counts agree, then a second
// search keeps them. Everything ends as soon as the step time is within a ten-thousandth of the
// bound, at Effort::kThorough at the bound itself. There, a few dozen items are searched on from
// shaken copies of the best filling.
//
// Given ranks: each rank is filled by itself, and no exchange crosses ranks.

#include "server/planner/balance/lockstep.h"

#include <algorithm>
#include <memory>
#include <numeric>
#include <random>
#include <tuple>
#include <utility>
#include <vector>

#include "server/planner/balance/alike_bins.h"
#include "server/planner/balance/bin_filling.h"
#include "server/planner/balance/lockstep_findings.h"
#include "server/planner/balance/longest_first.h"
#include "server/planner/balance/rank_bins.h"
#include "server/planner/packing/fewest_bins.h"
#include "server/planner/packing/index_set.h"

namespace batchplan {
namespace {

// The limits of the searches for one plan.
struct SearchLimits {
  // Steps of the local search from the best start, and those of them from every start.
  uint64_t steps;
  uint64_t first_steps;
  uint32_t patience;
  bool pairs;
  bool skip_stuck_slots;
  // Whether a start that was not good enough is followed by others.
  bool restarts;
};

// Beyond this many items the first start is as good as others.
constexpr uint64_t kMostForRestarts = 65536;

// From this many items on, the steps of Effort::kDefault are too few to even out bins that leave
// the time of their slot as it is.
constexpr uint64_t kFewestToSkip = 1024;

// The result after a third of the steps tells which start is the better one, except if items keep
// to their ranks.
SearchLimits SearchLimitsOf(Effort effort, const LockstepTask& task) {
  const uint64_t items = task.items.size();
  const bool restarts = items <= kMostForRestarts;
  const bool free = task.rank_of.empty() && !task.equal_counts;
  const uint64_t default_steps = (task.rank_of.empty() ? 120'000 : 150'000) + 8 * items;
  const uint64_t thorough_steps = 4'000'000 + 64 * items;
  switch (effort) {
    case Effort::kFast:
      return {.steps = 4096 + 4 * items,
              .first_steps = 4096 + 4 * items,
              .patience = 4,
              .pairs = false,
              .skip_stuck_slots = false,
              .restarts = false};
    case Effort::kThorough:
      return {.steps = thorough_steps,
              .first_steps = thorough_steps,
              .patience = 64,
              .pairs = true,
              .skip_stuck_slots = false,
              .restarts = true};
    default:
      return {.steps = default_steps,
              .first_steps = restarts && task.rank_of.empty() ? default_steps / 3 : default_steps,
              .patience = 8,
              .pairs = true,
              .skip_stuck_slots = free && items >= kFewestToSkip,
              .restarts = restarts};
  }
}

// Steps of PlaceLeftOver: many, as seldom much is left over, and to fill again costs more. If each
// rank is filled by itself, the ranks divide the constant.
uint64_t LeftOverSteps(uint64_t items, uint32_t fills) { return 1'000'000 / fills + 128 * items; }

// A step time within 1 / kGoodEnough of the bound is good enough: no other start is tried and,
// below kThorough, the search ends.
constexpr uint64_t kGoodEnough = 10000;

// Up to so many items, a thorough search leaves its local optimum so often, by so many exchanges at
// random, and has so many steps each time.
constexpr size_t kMostToShake = 64;
constexpr int kShakes = 400;
constexpr int kExchangesAShake = 3;
constexpr uint64_t kStepsAShake = 20'000;

// Gives each of the empty bins [filled, end) an item of the costliest of the bins [begin, filled).
void GiveToEmpty(uint32_t begin, uint32_t filled, uint32_t end, Filling& filling) {
  std::vector<uint32_t> givers;
  for (uint32_t bin = begin; bin < filled; ++bin) {
    if (filling.Members(bin).size() > 1) givers.push_back(bin);
  }
  const auto middle = givers.begin() + std::min<ptrdiff_t>(end - filled, std::ssize(givers));
  std::partial_sort(givers.begin(), middle, givers.end(), [&](uint32_t a, uint32_t b) {
    return std::pair(filling[b].cost, a) < std::pair(filling[a].cost, b);
  });
  // The bins that have an item to give take turns.
  givers.erase(middle, givers.end());
  size_t next = 0;
  for (uint32_t bin = filled; bin < end; ++bin, ++next) {
    const uint32_t giver = givers[next];
    filling.Move(filling.Members(giver).back(), bin);
    if (filling.Members(giver).size() > 1) givers.push_back(giver);
  }
}

class LockstepSolver {
 public:
  explicit LockstepSolver(const LockstepTask& task)
      : task_(task),
        found_(task.findings == nullptr ? own_ : task.findings->by_slots[task.slots]),
        sorted_(SortedOf(task, found_)),
        search_limits_(SearchLimitsOf(Affordable(task.effort, task.allowance), task)),
        good_(task.enough + task.enough / kGoodEnough) {}

  std::optional<BalancedBins> Run() {
    if (task_.fill_alike) {
      const std::optional<Bins> alike = FillAlike(sorted_, task_.allowance);
      if (alike) Improve(AlikeSteps(), Filling::OfPositions(sorted_, *alike));
    } else if (!task_.start_only) {
      TryStarts();
    }
    if (task_.allowance.stop_requested()) return std::nullopt;
    const bool has_start = task_.start != nullptr && task_.start->size() <= sorted_.bins();
    if (!best_ && has_start && task_.rank_of.empty()) {
      Filling filling(sorted_, *task_.start);
      GiveToEmpty(0, static_cast<uint32_t>(task_.start->size()), sorted_.bins(), filling);
      Improve(search_limits_.steps, std::move(filling));
    }
    if (!best_ || task_.allowance.stop_requested()) return std::nullopt;
    return BalancedBins{.bins = Collect(*best_), .step_time = step_time_};
  }

 private:
  // At Effort::kFast bins that are filled alike are soon as even as they get.
  uint64_t AlikeSteps() const {
    return search_limits_.steps / (task_.effort == Effort::kFast ? 16 : 1);
  }

  // Improves several starts for a while, and the best of them to the end.
  void TryStarts() {
    // By cost alone; then by cost and tokens, which also evens out the room.
    const uint64_t density = sorted_.total_cost / std::max<uint64_t>(1, sorted_.total_length);
    for (const uint64_t per_token : {uint64_t{0}, 2 * density}) {
      std::optional<Filling> filling =
          task_.rank_of.empty() ? Fill(per_token) : FillWithinRanks(per_token);
      if (filling) Improve(search_limits_.first_steps, *std::move(filling));
      if (Ended() || (best_ && IsGood()) || !search_limits_.restarts) return;
    }
    if (best_ && search_limits_.first_steps < search_limits_.steps) {
      step_time_ = Search(Rule(), search_limits_.steps - search_limits_.first_steps, *best_);
    }
    if (best_ && task_.effort == Effort::kThorough) ShakeBest();
  }

  // Leaves the local optimum of a few items: improves shaken copies of the best filling, each of
  // which is kept if it is better.
  void ShakeBest() {
    if (sorted_.size() > kMostToShake || sorted_.bins() < 2) return;
    std::mt19937_64 random(sorted_.size());
    for (int shake = 0; shake < kShakes && step_time_ > task_.enough && !Ended(); ++shake) {
      Filling filling = *best_;
      for (int exchange = 0; exchange < kExchangesAShake; ++exchange) Shake(random, filling);
      const uint64_t time = Search(Rule(), kStepsAShake, filling);
      Keep(time, std::move(filling));
    }
  }

  // Exchanges two items of different bins if both bins hold what they get; of one rank where ranks
  // are given. Items that are one sequence each leave all counts as they are.
  void Shake(std::mt19937_64& random, Filling& filling) const {
    const auto a = static_cast<uint32_t>(random() % sorted_.size());
    const auto b = static_cast<uint32_t>(random() % sorted_.size());
    const uint32_t of_a = filling.BinOf(a);
    const uint32_t of_b = filling.BinOf(b);
    const ItemSize change = sorted_.SizeOf(a) - sorted_.SizeOf(b);
    if (of_a == of_b || !filling[of_b].Holds(change) || !filling[of_a].Holds(-change)) return;
    if (Rule() == RankRule::kFixed && of_a / sorted_.slots != of_b / sorted_.slots) return;
    filling.Move(a, of_b);
    filling.Move(b, of_a);
  }

  bool Ended() const { return task_.allowance.spent() || task_.allowance.stop_requested(); }

  bool IsGood() const { return step_time_ <= good_; }

  static const SortedTask& SortedOf(const LockstepTask& task, SlotsFindings& found) {
    if (found.sorted == nullptr) {
      found.sorted =
          std::make_unique<const SortedTask>(task.items, task.limits, task.ranks, task.slots);
    }
    return *found.sorted;
  }

  // Fills the slots that long items dictate, which all starts have in common, and the rest by cost
  // alone.
  LockstepStart FillFirst() const {
    LockstepStart start{.head = Filling(sorted_)};
    IndexSet unused(sorted_.size());
    for (size_t i = 0; i < sorted_.size(); ++i) unused.Insert(i);
    start.head_slots = FillHeadSlots(unused, start.head, task_.allowance);
    for (size_t i = unused.AtLeast(0); i < sorted_.size(); i = unused.AtLeast(i + 1)) {
      start.rest.push_back(static_cast<uint32_t>(i));
    }
    if (task_.allowance.stop_requested()) return start;
    const bool is_last = task_.findings == nullptr && !search_limits_.restarts;
    start.filling = is_last ? std::move(start.head) : start.head;
    const std::vector<uint32_t> left_over = FillRest(start, 0, *start.filling);
    start.bin_of.assign(start.filling->bin_of().begin(), start.filling->bin_of().end());
    if (!PlaceAll(left_over, *start.filling)) start.filling.reset();
    return start;
  }

  std::vector<uint32_t> FillRest(const LockstepStart& start, uint64_t per_token,
                                 Filling& filling) const {
    return FillLongestFirst(start.rest, start.head_slots * sorted_.ranks, sorted_.bins(), per_token,
                            filling, task_.allowance);
  }

  bool PlaceAll(std::span<const uint32_t> left_over, Filling& filling) const {
    return !task_.allowance.stop_requested() &&
           PlaceLeftOver(left_over, 0, sorted_.bins(), LeftOverSteps(sorted_.size(), 1), filling,
                         task_.allowance);
  }

  // A start; none if items find no place, or if it is the same as the one before.
  std::optional<Filling> Fill(uint64_t per_token) {
    if (start_ == nullptr) {
      start_ = &found_.start.Get(task_.allowance, [&] { return FillFirst(); });
      if (&found_ == &own_ && !search_limits_.restarts) return std::move(start_->filling);
      return start_->filling;
    }
    Filling filling = start_->head;
    const std::vector<uint32_t> left_over = FillRest(*start_, per_token, filling);
    if (std::ranges::equal(filling.bin_of(), start_->bin_of)) return std::nullopt;
    if (!PlaceAll(left_over, filling)) return std::nullopt;
    return filling;
  }

  std::optional<Filling> FillWithinRanks(uint64_t per_token) {
    Filling filling(sorted_);
    std::vector<std::vector<uint32_t>> shares(sorted_.ranks);
    for (uint32_t i = 0; i < sorted_.size(); ++i) {
      shares[task_.rank_of[sorted_.item[i]]].push_back(i);
    }
    for (uint32_t rank = 0; rank < sorted_.ranks; ++rank) {
      if (task_.allowance.stop_requested()) return std::nullopt;
      const Allowance::Part part(task_.allowance, sorted_.ranks - rank + 1);
      if (!FillRank(shares[rank], rank * sorted_.slots, (rank + 1) * sorted_.slots, per_token,
                    filling)) {
        return std::nullopt;
      }
    }
    if (std::ranges::equal(filling.bin_of(), last_start_)) return std::nullopt;
    last_start_.assign(filling.bin_of().begin(), filling.bin_of().end());
    return filling;
  }

  bool FillRank(const std::vector<uint32_t>& share, uint32_t begin, uint32_t end,
                uint64_t per_token, Filling& filling) const {
    const std::vector<uint32_t> left_over =
        FillLongestFirst(share, begin, end, per_token, filling, task_.allowance);
    if (task_.allowance.stop_requested()) return false;
    const uint64_t steps = LeftOverSteps(share.size(), sorted_.ranks);
    if (PlaceLeftOver(left_over, begin, end, steps, filling, task_.allowance)) return true;
    std::vector<uint32_t> lengths;
    std::vector<uint32_t> counts;
    for (uint32_t position : share) {
      lengths.push_back(sorted_.length[position]);
      counts.push_back(sorted_.count[position]);
      filling.Remove(position);
    }
    const PackItems items{
        .lengths = lengths,
        .counts = task_.items.counts.empty() ? std::span<const uint32_t>() : counts};
    const std::optional<Bins> bins =
        PackInto(items, sorted_.limits, end - begin, task_.effort, task_.allowance);
    if (!bins) return false;
    const uint32_t filled = begin + static_cast<uint32_t>(bins->size());
    for (uint32_t bin = begin; bin < filled; ++bin) {
      for (const uint32_t item : (*bins)[bin - begin]) filling.Place(share[item], bin);
    }
    GiveToEmpty(begin, filled, end, filling);
    return true;
  }

  RankRule Rule() const {
    if (!task_.rank_of.empty()) return RankRule::kFixed;
    return task_.equal_counts ? RankRule::kEqualCounts : RankRule::kFree;
  }

  uint64_t Search(RankRule rule, uint64_t steps, Filling& filling) const {
    return EvenOut({.enough = task_.effort == Effort::kThorough ? task_.enough : good_,
                    .steps = steps,
                    .patience = search_limits_.patience,
                    .pairs = search_limits_.pairs,
                    .skip_stuck_slots = search_limits_.skip_stuck_slots,
                    .ranks = rule,
                    .allowance = task_.allowance},
                   filling);
  }

  // Improves `filling`, and keeps the result if it is the best so far.
  void Improve(uint64_t steps, Filling filling) {
    if (Rule() == RankRule::kEqualCounts) {
      Search(RankRule::kFree, steps, filling);
      std::optional<Filling> shared = ShareCountsEqually(filling);
      if (!shared) return;
      filling = *std::move(shared);
    }
    const uint64_t time = Search(Rule(), steps, filling);
    Keep(time, std::move(filling));
  }

  // Keeps the filling if it is the best so far.
  void Keep(uint64_t time, Filling filling) {
    if (best_ && step_time_ <= time) return;
    best_ = std::move(filling);
    step_time_ = time;
  }

  Bins Collect(const Filling& filling) const {
    std::vector<uint32_t> place_of(filling.bins());  // rank * slots + slot
    if (Rule() == RankRule::kFree) {
      std::vector<uint64_t> costs;
      costs.reserve(filling.bins());
      for (uint32_t bin = 0; bin < filling.bins(); ++bin) costs.push_back(filling[bin].cost);
      const std::vector<uint32_t> bin_at = DealBins(costs, sorted_.ranks, sorted_.slots);
      for (uint32_t place = 0; place < bin_at.size(); ++place) place_of[bin_at[place]] = place;
    } else {
      std::vector<uint32_t> order(filling.bins());
      std::iota(order.begin(), order.end(), 0u);
      std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
        const uint32_t rank_a = a / sorted_.slots;
        const uint32_t rank_b = b / sorted_.slots;
        return std::tuple(rank_a, filling[b].cost, a) < std::tuple(rank_b, filling[a].cost, b);
      });
      for (uint32_t place = 0; place < order.size(); ++place) place_of[order[place]] = place;
    }
    std::vector<uint32_t> bin_of(sorted_.size());
    for (uint32_t i = 0; i < sorted_.size(); ++i) {
      bin_of[sorted_.item[i]] = place_of[filling.BinOf(i)];
    }
    std::vector<uint32_t> items(sorted_.size());
    std::iota(items.begin(), items.end(), 0u);
    return Bins(items, bin_of, filling.bins());
  }

  const LockstepTask& task_;
  SlotsFindings own_;
  SlotsFindings& found_;
  const SortedTask& sorted_;
  const SearchLimits search_limits_;
  const uint64_t good_;
  LockstepStart* start_ = nullptr;
  std::vector<uint32_t> last_start_;  // the bin of each item, if ranks are given
  std::optional<Filling> best_;
  uint64_t step_time_ = 0;  // of the best
};

}  // namespace

std::optional<BalancedBins> BalanceLockstep(const LockstepTask& task) {
  return LockstepSolver(task).Run();
}

}  // namespace batchplan
