#include "server/planner/pass/rank_orders.h"

#include <algorithm>
#include <random>
#include <utility>

#include "server/planner/pass/order.h"

namespace batchplan {
namespace {

// kMostWorksToImprove for all mini-batches together.
constexpr uint64_t kMostWorksOfAll = 20'000'000;

}  // namespace

RankOrders::RankOrders(const Pass& pass, const Placement& placement, const Allowance& allowance)
    : placement_(placement),
      allowance_(allowance),
      together_(pass.synchronization() == Synchronization::kLockstep || placement.whole_slots),
      simulator_(*pass.pipeline(), placement.slots, PipelineSimulator::Mode::kTime, allowance) {
  allowance.Spend(simulator_.ticks());
  const std::vector<Cost> unpadded = MicrobatchCosts(pass, placement);
  const std::vector<Cost> costs = RowCosts(pass, placement, unpadded);
  const auto in_order = [&](MicrobatchOrder order) {
    return LanesOf(MicrobatchesInOrder(order, placement, unpadded), costs, unpadded);
  };
  best_ = in_order(MicrobatchOrder::kAsAssigned);
  if (together_ && !placement.whole_slots) {
    for (const MicrobatchOrder order :
         {MicrobatchOrder::kLargestFirst, MicrobatchOrder::kSmallAtBothEnds}) {
      if (!allowance.Affords(TicksOf(kQuickOrders))) break;
      Lanes sorted = in_order(order);
      if (sorted.makespan < best_.makespan) best_ = std::move(sorted);
    }
  }
  const uint64_t works = std::max<uint64_t>(1, simulator_.works());
  const uint64_t most_works = std::min(kMostWorksToImprove, kMostWorksOfAll / pass.mini_batches());
  const uint64_t simulations = std::min(SimulationsToImprove(pass.effort()), most_works / works);
  if (!allowance.Affords(TicksOf(simulations))) return;
  const uint64_t before = simulator_.ticks();
  Improve(simulations);
  allowance.Spend(simulator_.ticks() - before);
}

uint64_t RankOrders::TicksOf(uint64_t simulations) const {
  return simulator_.ticks_each() * simulations;
}

RankOrders::Lanes RankOrders::LanesOf(std::vector<uint32_t> at, const std::vector<Cost>& costs,
                                      const std::vector<Cost>& unpadded) {
  const size_t slots = placement_.slots;
  Lanes found = {.at = std::move(at),
                 .lanes = std::vector<Lane>(
                     together_ ? 1 : placement_.ranks(),
                     {.costs = std::vector<double>(slots, 0), .movable = slots, .order = {}})};
  std::vector<std::vector<double>> keys(found.lanes.size(), std::vector<double>(slots, 0));
  for (size_t place = 0; place < found.at.size(); ++place) {
    const uint32_t m = found.at[place];
    const size_t slot = place % slots;
    const size_t number = together_ ? 0 : place / slots;
    Lane& lane = found.lanes[number];
    lane.costs[slot] = std::max(lane.costs[slot], static_cast<double>(costs[m]));
    keys[number][slot] = std::max(keys[number][slot], static_cast<double>(unpadded[m]));
    if (placement_.microbatches[m].empty()) lane.movable = std::min(lane.movable, slot);
  }
  const uint64_t lanes = found.lanes.size();
  const bool looks = allowance_.Affords(TicksOf(kQuickOrders) * lanes);
  allowance_.Spend(TicksOf(looks ? kQuickOrders : 1) * lanes);
  for (size_t i = 0; i < found.lanes.size(); ++i) {
    Lane& lane = found.lanes[i];
    const bool moves = looks && !allowance_.stop_requested();
    lane.order = QuickOrder(simulator_, lane.costs, keys[i], moves ? lane.movable : 0);
    if (lane.order.makespan > found.makespan) {
      found.slowest = i;
      found.makespan = lane.order.makespan;
    }
  }
  return found;
}

void RankOrders::Improve(uint64_t simulations) {
  std::minstd_rand random;
  while (simulations > 0 && !allowance_.stop_requested()) {
    // The slowest of the other ranks.
    size_t next = 0;
    double enough = 0;
    for (size_t i = 0; i < best_.lanes.size(); ++i) {
      if (i == best_.slowest || best_.lanes[i].order.makespan <= enough) continue;
      next = i;
      enough = best_.lanes[i].order.makespan;
    }
    Lane& lane = best_.lanes[best_.slowest];
    simulations =
        ImproveOrder(simulator_, lane.costs, lane.movable, enough, simulations, random, lane.order);
    best_.makespan = std::max(lane.order.makespan, enough);
    if (lane.order.makespan >= enough) return;
    best_.slowest = next;
  }
}

double RankOrders::makespan() const { return best_.makespan; }

std::vector<uint32_t> RankOrders::Positions() const {
  std::vector<uint32_t> positions;
  positions.reserve(best_.at.size());
  for (size_t rank = 0; rank < placement_.ranks(); ++rank) {
    for (const uint32_t slot : best_.lanes[together_ ? 0 : rank].order.order) {
      positions.push_back(best_.at[rank * placement_.slots + slot]);
    }
  }
  return positions;
}

}  // namespace batchplan
