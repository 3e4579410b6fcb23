#include "server/planner/balance/companions.h"

#include <algorithm>
#include <cstddef>

namespace batchplan {
namespace {

constexpr uint32_t kSteps = 2048;

uint64_t CeilDiv(uint64_t a, uint64_t b) { return a / b + (a % b != 0); }

}  // namespace

Companions::Companions(std::span<const ItemClass> by_length, uint32_t capacity, uint64_t ceiling)
    : by_length_(by_length), ceiling_(ceiling), width_(capacity / kSteps + 1) {
  token_cost_in_step_.resize(StepOf(capacity) + 1, 0);
  uint64_t highest = 0;
  for (const ItemClass& c : by_length) {
    highest = std::max(highest, CeilDiv(c.cost, c.length));
    token_cost_.push_back(highest);
    token_cost_in_step_[StepOf(c.length)] = highest;
    if (steps_.empty() || StepOf(steps_.back().longest) != StepOf(c.length)) {
      steps_.push_back({.shortest = c.length, .longest = c.length, .costliest = c.cost});
    }
    steps_.back().longest = c.length;
    steps_.back().costliest = std::max(steps_.back().costliest, c.cost);
  }
  for (size_t step = 1; step < token_cost_in_step_.size(); ++step) {
    token_cost_in_step_[step] = std::max(token_cost_in_step_[step], token_cost_in_step_[step - 1]);
  }
}

uint64_t Companions::TokenCost(uint32_t longest) const {
  const size_t fitting =
      std::partition_point(by_length_.begin(), by_length_.end(),
                           [&](const ItemClass& c) { return c.length <= longest; }) -
      by_length_.begin();
  return fitting == 0 ? 0 : token_cost_[fitting - 1];
}

uint64_t Companions::Fill(uint64_t price, uint32_t room, uint32_t longest) const {
  return Times(std::min(price, token_cost_in_step_[StepOf(longest)]), room);
}

uint64_t Companions::Most(uint64_t price, uint32_t room, uint32_t longest) const {
  uint64_t most = Fill(price, room, std::min(longest, room / 2));
  auto step = std::partition_point(steps_.begin(), steps_.end(),
                                   [&](const Step& s) { return s.longest <= room / 2; });
  for (; step != steps_.end() && step->shortest <= longest; ++step) {
    const uint64_t first =
        std::min(step->costliest, Times(price, std::min(step->longest, longest)));
    const uint32_t rest = room - step->shortest;
    most = std::max(most, first + Fill(price, rest, rest));
  }
  return std::min(most, ceiling_);
}

}  // namespace batchplan
