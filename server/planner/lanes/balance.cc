// Local search on simulations: the slowest rank, a lane here, is made faster change by change.
//
// A simulation that traces tells how much of the makespan each slot's cost contributes. Slots are
// drawn with these weights, and one of three changes is tried: two micro-batches change places; an
// item moves to a micro-batch whose cost matters less, of the same lane or of another; an item is
// exchanged for a cheaper one there. A change is kept if the lane gets faster and the other lane no
// slower than this one was. After thousands of vain tries, small batches are shaken: the search
// goes on after some random changes, and the best state met is the result. In lockstep there is one
// lane, of the slots' costliest micro-batches.
//
// Most tries are in vain. So the next ones are drawn as if all were, and simulated four at once; if
// one is not, those behind it are forgotten. As makespans are convex, the weights of the last
// simulation often tell without another one that a try is in vain.

#include "server/planner/lanes/balance.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <random>
#include <utility>
#include <vector>

#include "server/planner/lanes/fill_lanes.h"
#include "server/planner/lanes/lanes.h"
#include "server/planner/packing/even_counts.h"
#include "server/planner/packing/orders.h"

namespace batchplan {
namespace {

// The vain tries in a row after which a search ends.
constexpr uint64_t kMostInVain = 4000;
constexpr uint64_t kMostInVainAnItem = 40;
// With at most this many items the search then goes on after a few random changes.
constexpr size_t kMostToShake = 64;
constexpr int kChangesAShake = 4;
// The least gain of a change, as a part of the makespan.
constexpr double kWorthAChange = 1e-9;

// Simulations of a search, each of which runs `works` forwards and backwards. In lockstep one
// simulation serves all ranks, but changes of their slots are slower to follow.
uint64_t Simulations(Effort effort, bool lockstep, uint64_t works) {
  switch (effort) {
    case Effort::kFast:
      return std::min<uint64_t>(500, 250'000 / works);
    case Effort::kThorough:
      return std::min<uint64_t>(200'000, 200'000'000 / works);
    default:
      return std::min<uint64_t>(lockstep ? 8000 : 40'000, 5'000'000 / works);
  }
}

// A try at a change of a lane.
struct Trial {
  enum class Kind { kNone, kOrder, kMove, kSwap };
  struct Place {
    uint32_t rank = 0;
    uint32_t slot = 0;
    uint32_t bin = 0;
    size_t item = 0;  // its number in the bin
    // What the slot costs after the change, without the fixed cost.
    double slot_cost = 0;
  };

  // None: nothing to simulate.
  Kind kind = Kind::kNone;
  // kOrder: two slots of the lane that change places. Otherwise the item goes from a bin of the
  // lane to any other; kSwap: for a cheaper one.
  Place from;
  Place to;
  // Whether it may pay, and is simulated.
  bool may_pay = false;
  // The lane's after the change; infinite without a simulation.
  double makespan = std::numeric_limits<double>::infinity();
  // Behind it.
  std::minstd_rand random;
  size_t swapped = 0;
};

// Makes the slowest lane faster, change by change.
class LaneSearch {
 public:
  LaneSearch(const PipelineTask& task, PipelineSimulator& simulator, Lanes& lanes)
      : task_(task),
        simulator_(simulator),
        lanes_(lanes),
        rounding_(1 - static_cast<double>(4 * simulator.works()) *
                          std::numeric_limits<double>::epsilon()),
        times_(lanes.count()),
        weights_(lanes.count(), std::vector<double>(task.slots)),
        owed_(lanes.count(), std::vector<double>(task.slots)),
        costs_(task.slots),
        costs_of_four_(task.slots) {
    for (uint32_t lane = 0; lane < lanes.count(); ++lane) Trace(lane);
    CountSequences();
  }

  double Run() {
    const uint64_t followed = task_.lockstep ? uint64_t{task_.ranks} * task_.slots : 0;
    SearchSteps steps(task_.allowance,
                      Simulations(task_.effort, task_.lockstep, simulator_.works()),
                      simulator_.ticks_each() + followed);
    const uint64_t most_in_vain =
        std::min<uint64_t>(kMostInVain, kMostInVainAnItem * task_.items.size());
    uint64_t in_vain = 0;
    uint32_t slowest = Slowest();
    const int most_shakes = task_.effort == Effort::kThorough ? 1000 : 10;
    int shakes = 0;
    std::optional<Lanes::State> best;
    double least = 0;
    while (steps.left > 2 && !task_.allowance.stop_requested()) {
      Draw(slowest, most_in_vain - in_vain, steps.left - 2);
      SimulateTrials(slowest);
      for (size_t i = 0; i < trials_.size() && steps.left > 2; ++i) {
        random_ = trials_[i].random;
        simulated_ = 0;
        if (Succeeds(slowest, trials_[i])) {
          Undo(i == 0 ? 0 : trials_[i - 1].swapped);
          Make(slowest, trials_[i]);
          in_vain = 0;
          slowest = Slowest();
          steps.left -= std::min(steps.left, simulated_);
          break;
        }
        if (steps.left - simulated_ <= 2) Undo(trials_[i].swapped);
        if (++in_vain < most_in_vain) steps.left -= simulated_;
      }
      if (in_vain < most_in_vain) continue;
      // Nothing makes the lane faster from here; from a state close by something may.
      if (task_.items.size() > kMostToShake || shakes++ == most_shakes) break;
      if (!best || times_[slowest] < least) {
        best = lanes_.state();
        least = times_[slowest];
      } else {
        lanes_.Restore(*best);
        CountSequences();
      }
      Shake();
      in_vain = 0;
      slowest = Slowest();
      steps.left -= std::min(steps.left, simulated_);
    }
    if (best && least <= times_[slowest]) {
      lanes_.Restore(*best);
      return least;
    }
    return times_[slowest];
  }

 private:
  // Simulations at once, and trials drawn before them at most.
  static constexpr size_t kAtOnce = 4;
  static constexpr size_t kMostTrials = 16;

  void Trace(uint32_t lane) {
    times_[lane] = lanes_.Trace(lane, weights_[lane]);
    for (uint32_t slot = 0; slot < task_.slots; ++slot) {
      owed_[lane][slot] = weights_[lane][slot] * lanes_.SlotCost(lane, slot);
    }
    ++simulated_;
  }
  uint32_t Slowest() const {
    return static_cast<uint32_t>(std::max_element(times_.begin(), times_.end()) - times_.begin());
  }
  uint32_t Random(size_t below) { return static_cast<uint32_t>(random_() % below); }

  void CountSequences() {
    if (!task_.equal_counts) return;
    std::vector<uint64_t> counts(task_.ranks, 0);
    for (uint32_t bin = 0; bin < task_.ranks * task_.slots; ++bin) {
      counts[bin / task_.slots] += lanes_.items_of(bin).size();
    }
    counts_ = KeptCounts(std::move(counts));
  }

  // Makes a few changes, whatever the result.
  void Shake() {
    for (int change = 0; change < kChangesAShake; ++change) {
      const uint32_t one = Random(task_.ranks * task_.slots);
      const uint32_t another = Random(task_.ranks * task_.slots);
      const uint32_t rank = one / task_.slots;
      const uint32_t from = lanes_.BinAt(rank, one % task_.slots);
      const uint32_t to =
          lanes_.BinAt(task_.rank_of.empty() ? another / task_.slots : rank, another % task_.slots);
      if (from == to) continue;
      const uint32_t item = lanes_.Take(from, Random(lanes_.items_of(from).size()));
      const uint32_t other = lanes_.Take(to, Random(lanes_.items_of(to).size()));
      const bool fits = lanes_.Holds(to, item) && lanes_.Holds(from, other);
      lanes_.Put(from, fits ? other : item);
      lanes_.Put(to, fits ? item : other);
    }
    for (uint32_t lane = 0; lane < lanes_.count(); ++lane) Trace(lane);
  }

  // Draws the next trials of the lane, with at most this many simulations.
  void Draw(uint32_t lane, uint64_t most_trials, uint64_t most_simulations) {
    trials_.clear();
    swapped_.clear();
    size_t simulations = 0;
    size_t needed = 0;  // of them, as the others are surely in vain
    while (trials_.size() < std::min<uint64_t>(kMostTrials, most_trials) &&
           simulations < most_simulations && needed < kAtOnce) {
      Trial trial;
      if (Random(4) == 0) {
        DrawOrder(lane, trial);
      } else {
        DrawExchange(lane, trial);
      }
      if (trial.kind != Trial::Kind::kNone) {
        ++simulations;
        trial.may_pay = MayPay(lane, trial);
        if (trial.may_pay) ++needed;
      }
      trial.random = random_;
      trial.swapped = swapped_.size();
      trials_.push_back(trial);
    }
  }

  void DrawOrder(uint32_t lane, Trial& trial) {
    trial.from = {.rank = lane, .slot = Random(task_.slots)};
    trial.to = {.rank = lane, .slot = Random(task_.slots)};
    if (trial.from.slot == trial.to.slot) return;
    trial.kind = Trial::Kind::kOrder;
    trial.from.slot_cost = lanes_.SlotCost(lane, trial.to.slot);
    trial.to.slot_cost = lanes_.SlotCost(lane, trial.from.slot);
  }

  void DrawExchange(uint32_t lane, Trial& trial) {
    Trial::Place& from = trial.from;
    Trial::Place& to = trial.to;
    from.slot = SlotToRelieve(lane);
    from.rank = lanes_.CostliestRank(lane, from.slot);
    from.bin = lanes_.BinAt(from.rank, from.slot);
    to.rank = from.rank;
    if (task_.rank_of.empty() && Random(3) > 0) to.rank = Random(task_.ranks);
    to.slot = SlotToBurden(lanes_.LaneOf(to.rank));
    to.bin = lanes_.BinAt(to.rank, to.slot);
    if (to.bin == from.bin) return;
    const bool may_move = !task_.equal_counts || counts_.Allow(from.rank, to.rank, 1);
    const std::vector<uint32_t>& items = lanes_.items_of(from.bin);
    from.item = Random(items.size());
    const uint32_t item = items[from.item];
    if (may_move && Random(2) == 0) {
      if (items.size() < 2 || !lanes_.Holds(to.bin, item)) return;
      trial.kind = Trial::Kind::kMove;
      SetSlotCosts(task_.items.loads[item], trial);
    } else {
      to.item = Random(lanes_.items_of(to.bin).size());
      const uint32_t other = lanes_.items_of(to.bin)[to.item];
      if (task_.items.loads[other] >= task_.items.loads[item]) return;
      if (lanes_.Holds(to.bin, item, other) && lanes_.Holds(from.bin, other, item)) {
        trial.kind = Trial::Kind::kSwap;
        SetSlotCosts(task_.items.loads[item] - task_.items.loads[other], trial);
      }
      SwapWithLast(to.bin, to.item);
    }
    SwapWithLast(from.bin, from.item);
  }

  // The slots' costs once bin `to` has more load from bin `from`.
  void SetSlotCosts(uint64_t load, Trial& trial) const {
    Trial::Place& from = trial.from;
    Trial::Place& to = trial.to;
    const bool one_slot = task_.lockstep && from.slot == to.slot;
    const uint64_t less = lanes_[from.bin].cost - load;
    const uint64_t more = lanes_[to.bin].cost + load;
    from.slot_cost = lanes_.SlotCostWith(from.slot, from.rank, less, one_slot ? more : 0);
    to.slot_cost = one_slot ? from.slot_cost : lanes_.SlotCostWith(to.slot, to.rank, more);
  }

  // Items of a bin stand in another order behind each trial.
  void SwapWithLast(uint32_t bin, size_t item) {
    lanes_.SwapWithLast(bin, item);
    swapped_.emplace_back(bin, item);
  }
  // Forgets what trials swapped, but for the first ones.
  void Undo(size_t first) {
    for (; swapped_.size() > first; swapped_.pop_back()) {
      lanes_.SwapWithLast(swapped_.back().first, swapped_.back().second);
    }
  }

  // False if the lane surely does not get faster.
  bool MayPay(uint32_t lane, const Trial& trial) const {
    const bool one_slot = trial.from.slot == trial.to.slot;
    double growth = Growth(lane, trial.from);
    if (lanes_.LaneOf(trial.to.rank) == lane && !one_slot) growth += Growth(lane, trial.to);
    return MayTakeLess(lane, growth, Enough(lane));
  }
  // How much the makespan grows at least with a slot.
  double Growth(uint32_t lane, const Trial::Place& place) const {
    return weights_[lane][place.slot] * (place.slot_cost - lanes_.SlotCost(lane, place.slot));
  }
  bool MayTakeLess(uint32_t lane, double growth, double enough) const {
    return (times_[lane] + growth) * rounding_ < enough;
  }

  // Sets the makespans of the trials that may pay.
  void SimulateTrials(uint32_t lane) {
    std::array<Trial*, kAtOnce> at_once = {};
    size_t count = 0;
    for (Trial& trial : trials_) {
      if (trial.may_pay) at_once[count++] = &trial;
    }
    if (count == 0) return;
    for (uint32_t slot = 0; slot < task_.slots; ++slot) {
      const double cost = lanes_.SlotCost(lane, slot) + task_.fixed;
      costs_of_four_[slot] = {{cost, cost, cost, cost}};
    }
    for (size_t i = 0; i < count; ++i) {
      const Trial::Place& from = at_once[i]->from;
      const Trial::Place& to = at_once[i]->to;
      costs_of_four_[from.slot][i] = from.slot_cost + task_.fixed;
      if (lanes_.LaneOf(to.rank) == lane) costs_of_four_[to.slot][i] = to.slot_cost + task_.fixed;
    }
    const Four makespans = simulator_.Makespans(costs_of_four_, count);
    for (size_t i = 0; i < count; ++i) at_once[i]->makespan = makespans[i];
  }

  // Whether the lane gets faster, and no other as slow as it was.
  bool Succeeds(uint32_t lane, const Trial& trial) {
    if (trial.kind == Trial::Kind::kNone) return false;
    ++simulated_;
    const double enough = Enough(lane);
    if (trial.makespan >= enough) return false;
    const uint32_t other = lanes_.LaneOf(trial.to.rank);
    if (other == lane) return true;
    ++simulated_;
    return MayTakeLess(other, Growth(other, trial.to), enough) &&
           MakespanOf(other, trial.to) < enough;
  }
  // The makespan of a lane if this slot changes.
  double MakespanOf(uint32_t lane, const Trial::Place& changed) {
    for (uint32_t slot = 0; slot < task_.slots; ++slot) {
      costs_[slot] = lanes_.SlotCost(lane, slot) + task_.fixed;
    }
    costs_[changed.slot] = changed.slot_cost + task_.fixed;
    return simulator_.Makespan(costs_);
  }

  void Make(uint32_t lane, const Trial& trial) {
    const Trial::Place& from = trial.from;
    const Trial::Place& to = trial.to;
    if (trial.kind == Trial::Kind::kOrder) {
      lanes_.SwapSlots(lane, from.slot, to.slot);
    } else {
      const uint32_t item = lanes_.Take(from.bin, from.item);
      if (trial.kind == Trial::Kind::kSwap) {
        lanes_.Put(from.bin, lanes_.Take(to.bin, to.item));
      } else {
        counts_.Give(from.rank, to.rank, 1);
      }
      lanes_.Put(to.bin, item);
      if (lanes_.LaneOf(to.rank) != lane) Trace(lanes_.LaneOf(to.rank));
    }
    Trace(lane);
  }

  double Enough(uint32_t lane) const { return times_[lane] * (1 - kWorthAChange); }

  // A slot drawn by its part of the makespan.
  uint32_t SlotToRelieve(uint32_t lane) {
    const std::vector<double>& owed = owed_[lane];
    const double total = std::accumulate(owed.begin(), owed.end(), 0.0);
    double left = static_cast<double>(random_()) / static_cast<double>(random_.max()) * total;
    for (uint32_t slot = 0; slot + 1 < owed.size(); ++slot) {
      left -= owed[slot];
      if (left < 0) return slot;
    }
    return task_.slots - 1;
  }

  // Of three random slots, the one with the least weight in the makespan.
  uint32_t SlotToBurden(uint32_t lane) {
    uint32_t best = Random(task_.slots);
    for (int i = 0; i < 2; ++i) {
      const uint32_t slot = Random(task_.slots);
      if (weights_[lane][slot] < weights_[lane][best]) best = slot;
    }
    return best;
  }

  const PipelineTask& task_;
  PipelineSimulator& simulator_;
  Lanes& lanes_;
  // A sum along a path of works, times this, is below the exact one.
  const double rounding_;
  // Of the ranks' sequences, if these must be equal.
  KeptCounts counts_;
  // By lane: the makespan, and by slot how much it grows with the slot's cost, and what part of it
  // that cost is.
  std::vector<double> times_;
  std::vector<std::vector<double>> weights_;
  std::vector<std::vector<double>> owed_;
  std::vector<Trial> trials_;
  // Bins, and numbers of items that changed places with the last ones.
  std::vector<std::pair<uint32_t, size_t>> swapped_;
  std::vector<double> costs_;
  std::vector<Four> costs_of_four_;
  uint64_t simulated_ = 0;
  std::minstd_rand random_;
};

}  // namespace

std::optional<PipelineBins> BalancePipeline(const PipelineTask& task, const Bins* start) {
  PipelineSimulator simulator(task.pipeline, task.slots, PipelineSimulator::Mode::kTrace,
                              task.allowance);
  std::optional<Lanes> lanes;
  const auto clear = [&] {
    lanes.emplace(task.items, task.limits, task.ranks, task.lockstep, task.fixed, simulator);
  };
  clear();
  if (start != nullptr) {
    for (uint32_t bin = 0; bin < start->size(); ++bin) {
      for (const uint32_t item : (*start)[bin]) lanes->Put(bin, item);
    }
  } else {
    const std::vector<uint32_t> descending = DescendingOrder(task.items.loads);
    const Targets targets = FindTargets(task, descending, simulator);
    task.allowance.Spend(simulator.ticks());
    if (task.allowance.stop_requested()) return std::nullopt;
    if (!FillByTargets(task, targets, descending, *lanes)) {
      clear();
      if (!FillByPacking(task, targets, *lanes)) return std::nullopt;
    }
  }
  const double makespan = LaneSearch(task, simulator, *lanes).Run();
  return PipelineBins{.bins = lanes->TakeBins(), .makespan = makespan};
}

}  // namespace batchplan
