#include "server/planner/balance/filling.h"

#include <algorithm>

namespace batchplan {

Filling::Filling(const Problem& problem)
    : problem_(&problem),
      loads_(problem.bins(), Load{.cost = 0,
                                  .room = problem.limits.capacity,
                                  .sequences = problem.limits.max_sequences}),
      members_(problem.bins()),
      bin_of_(problem.size(), kUnplaced) {}

void Filling::Place(uint32_t position, uint32_t bin) {
  std::vector<uint32_t>& members = members_[bin];
  if (members.empty() || members.back() < position) {
    members.push_back(position);
  } else {
    members.insert(std::upper_bound(members.begin(), members.end(), position), position);
  }
  bin_of_[position] = bin;
  Load& load = loads_[bin];
  load.cost += problem_->cost[position];
  load.room -= problem_->length[position];
  load.sequences -= problem_->count[position];
  ++load.items;
}

void Filling::Remove(uint32_t position) {
  const uint32_t bin = bin_of_[position];
  std::vector<uint32_t>& members = members_[bin];
  members.erase(std::lower_bound(members.begin(), members.end(), position));
  bin_of_[position] = kUnplaced;
  Load& load = loads_[bin];
  load.cost -= problem_->cost[position];
  load.room += problem_->length[position];
  load.sequences += problem_->count[position];
  --load.items;
}

}  // namespace batchplan
