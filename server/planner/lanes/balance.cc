// Local search on simulations: the slowest rank, a lane here, is made faster change by change.
//
// A simulation that traces tells how much of the makespan each slot's cost contributes. Slots are
// drawn with these weights, and one of three changes is tried: two micro-batches change places; an
// item moves to a micro-batch whose cost matters less, of the same lane or of another; an item is
// exchanged for a cheaper one there. A change is kept if the lane gets faster and the other lane no
// slower than this one was. After thousands of vain tries, small batches are shaken: the search
// goes on after some random changes, and the best state met is the result. In lockstep there is one
// lane, of the slots' costliest micro-batches.

#include "server/planner/lanes/balance.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
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

// Makes the slowest lane faster, change by change.
class LaneSearch {
 public:
  LaneSearch(const PipelineTask& task, const PipelineSimulator& simulator, Lanes& lanes)
      : task_(task),
        simulator_(simulator),
        lanes_(lanes),
        times_(lanes.count()),
        weights_(lanes.count(), std::vector<double>(task.slots)) {
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
      simulated_ = 0;
      if (Try(slowest)) {
        in_vain = 0;
        slowest = Slowest();
      } else if (++in_vain == most_in_vain) {
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
      }
      steps.left -= std::min(steps.left, simulated_);
    }
    if (best && least <= times_[slowest]) {
      lanes_.Restore(*best);
      return least;
    }
    return times_[slowest];
  }

 private:
  void Trace(uint32_t lane) {
    times_[lane] = lanes_.Trace(lane, weights_[lane]);
    ++simulated_;
  }
  double Simulate(uint32_t lane) {
    ++simulated_;
    return lanes_.Simulate(lane);
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
      const uint32_t from = Random(task_.ranks * task_.slots);
      uint32_t to = Random(task_.ranks * task_.slots);
      if (!task_.rank_of.empty()) to = from / task_.slots * task_.slots + to % task_.slots;
      if (from == to) continue;
      const uint32_t item = lanes_.Take(from, Random(lanes_.items_of(from).size()));
      const uint32_t other = lanes_.Take(to, Random(lanes_.items_of(to).size()));
      const bool fits = lanes_.Holds(to, item) && lanes_.Holds(from, other);
      lanes_.Put(from, fits ? other : item);
      lanes_.Put(to, fits ? item : other);
    }
    for (uint32_t lane = 0; lane < lanes_.count(); ++lane) Trace(lane);
  }

  // Tries one change of the lane; kept if the lane gets faster and no other as slow.
  bool Try(uint32_t lane) {
    if (Random(4) == 0) return TryOrder(lane);
    const uint32_t slot = SlotToRelieve(lane);
    const uint32_t rank = lanes_.CostliestRank(lane, slot);
    const uint32_t from = lanes_.BinAt(rank, slot);
    uint32_t other = rank;
    if (task_.rank_of.empty() && Random(3) > 0) other = Random(task_.ranks);
    const uint32_t to = lanes_.BinAt(other, SlotToBurden(lanes_.LaneOf(other)));
    if (to == from) return false;
    const bool may_move = !task_.equal_counts || counts_.Allow(rank, other, 1);
    const std::vector<uint32_t>& items = lanes_.items_of(from);
    const size_t place = Random(items.size());
    if (may_move && Random(2) == 0) return TryMove(lane, from, place, to);
    return TrySwap(lane, from, place, to);
  }

  bool TryOrder(uint32_t lane) {
    const uint32_t a = Random(task_.slots);
    const uint32_t b = Random(task_.slots);
    if (a == b) return false;
    lanes_.SwapSlots(lane, a, b);
    if (Simulate(lane) < Enough(lane)) {
      Trace(lane);
      return true;
    }
    lanes_.SwapSlots(lane, a, b);
    return false;
  }

  bool TryMove(uint32_t lane, uint32_t from, size_t place, uint32_t to) {
    const uint32_t item = lanes_.items_of(from)[place];
    if (lanes_.items_of(from).size() < 2 || !lanes_.Holds(to, item)) return false;
    lanes_.Put(to, lanes_.Take(from, place));
    if (Keep(lane, to)) {
      counts_.Give(from / task_.slots, to / task_.slots, 1);
      return true;
    }
    lanes_.Put(from, lanes_.Take(to, lanes_.items_of(to).size() - 1));
    return false;
  }

  // Tries to exchange the item for a cheaper one.
  bool TrySwap(uint32_t lane, uint32_t from, size_t place, uint32_t to) {
    const size_t other_place = Random(lanes_.items_of(to).size());
    const uint32_t item = lanes_.items_of(from)[place];
    const uint32_t other = lanes_.items_of(to)[other_place];
    if (task_.items.loads[other] >= task_.items.loads[item]) return false;
    lanes_.Take(from, place);
    lanes_.Take(to, other_place);
    const bool fits = lanes_.Holds(to, item) && lanes_.Holds(from, other);
    lanes_.Put(from, fits ? other : item);
    lanes_.Put(to, fits ? item : other);
    if (!fits) return false;
    if (Keep(lane, to)) return true;
    lanes_.Take(from, lanes_.items_of(from).size() - 1);
    lanes_.Take(to, lanes_.items_of(to).size() - 1);
    lanes_.Put(from, item);
    lanes_.Put(to, other);
    return false;
  }

  // Whether the lane is faster, and the lane of bin `to` no slower than this lane was.
  bool Keep(uint32_t lane, uint32_t to) {
    const uint32_t other = lanes_.LaneOf(to / task_.slots);
    const double enough = Enough(lane);
    if (Simulate(lane) >= enough) return false;
    if (other != lane) {
      if (Simulate(other) >= enough) return false;
      Trace(other);
    }
    Trace(lane);
    return true;
  }

  double Enough(uint32_t lane) const { return times_[lane] * (1 - kWorthAChange); }

  // A slot drawn by its part of the makespan.
  uint32_t SlotToRelieve(uint32_t lane) {
    const std::vector<double>& weights = weights_[lane];
    double total = 0;
    for (uint32_t slot = 0; slot < task_.slots; ++slot) total += Owed(lane, slot);
    double left = static_cast<double>(random_()) / static_cast<double>(random_.max()) * total;
    for (uint32_t slot = 0; slot + 1 < weights.size(); ++slot) {
      left -= Owed(lane, slot);
      if (left < 0) return slot;
    }
    return task_.slots - 1;
  }
  double Owed(uint32_t lane, uint32_t slot) const {
    const uint32_t rank = lanes_.CostliestRank(lane, slot);
    return weights_[lane][slot] * lanes_.cost(lanes_.BinAt(rank, slot));
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
  const PipelineSimulator& simulator_;
  Lanes& lanes_;
  // Of the ranks' sequences, if these must be equal.
  KeptCounts counts_;
  std::vector<double> times_;
  std::vector<std::vector<double>> weights_;
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
