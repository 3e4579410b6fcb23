// Exchanges between two bins of few items, compared by cost alone and without branches: far most of
// the pairs of bins that EvenOut looks at have none that helps.

#ifndef BATCHPLAN_SERVER_PLANNER_BALANCE_FEW_ITEMS_H_
#define BATCHPLAN_SERVER_PLANNER_BALANCE_FEW_ITEMS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace batchplan {

// More steps than StepsInVain ever returns.
inline constexpr uint64_t kStepsOfFewItems = 32;

// Looks at all moves of one item and exchanges of one for one, with `kPairs` also of one for two
// and two for one. An only item is not moved. If any transfers a cost in least .. most, which are
// positive: none. Otherwise the steps that EvenOut would have used to see that. Costs are
// descending; `cost_of(i)` is that of the receiver's item i.
template <bool kPairs, size_t kGives, size_t kTakes, typename CostOf>
std::optional<uint64_t> StepsInVain(std::span<const int64_t> giver, CostOf cost_of, int64_t least,
                                    int64_t most) {
  int64_t gives[kGives];
  int64_t takes[kTakes];
  for (size_t i = 0; i < kGives; ++i) gives[i] = giver[i];
  for (size_t i = 0; i < kTakes; ++i) takes[i] = cost_of(i);
  bool any = false;
  const auto look = [&, range = static_cast<uint64_t>(most - least)](int64_t transfer) {
    any |= static_cast<uint64_t>(transfer - least) <= range;
  };
  uint64_t steps = 0;
  for (size_t i = 0; i < kGives; ++i) {
    const int64_t in = gives[i] - least + 1;  // the most that may come back, and one more
    const bool suffices = in >= 0;
    steps += suffices;
    if constexpr (kGives > 1) look(gives[i]);
    for (size_t j = 0; j < kTakes; ++j) look(gives[i] - takes[j]);
    if constexpr (kPairs) {
      for (size_t j = 0; j + 1 < kTakes; ++j) {
        steps += static_cast<uint64_t>(suffices & (takes[j] <= in));
        for (size_t k = j + 1; k < kTakes; ++k) look(gives[i] - takes[j] - takes[k]);
      }
      for (size_t j = i + 1; j < kGives; ++j) {
        steps += gives[j] >= -in;
        for (size_t k = 0; k < kTakes; ++k) look(gives[i] + gives[j] - takes[k]);
      }
    }
  }
  return any ? std::nullopt : std::optional(steps);
}

// As above, for up to four items of the giver and six of the receiver; none for others.
template <bool kPairs, typename CostOf>
std::optional<uint64_t> StepsInVain(std::span<const int64_t> giver, size_t takes, CostOf cost_of,
                                    int64_t least, int64_t most) {
  if (takes > 6) return std::nullopt;
  switch (giver.size() * 8 + takes) {
    case 1 * 8 + 1:
      return StepsInVain<kPairs, 1, 1>(giver, cost_of, least, most);
    case 1 * 8 + 2:
      return StepsInVain<kPairs, 1, 2>(giver, cost_of, least, most);
    case 1 * 8 + 3:
      return StepsInVain<kPairs, 1, 3>(giver, cost_of, least, most);
    case 1 * 8 + 4:
      return StepsInVain<kPairs, 1, 4>(giver, cost_of, least, most);
    case 1 * 8 + 5:
      return StepsInVain<kPairs, 1, 5>(giver, cost_of, least, most);
    case 1 * 8 + 6:
      return StepsInVain<kPairs, 1, 6>(giver, cost_of, least, most);
    case 2 * 8 + 1:
      return StepsInVain<kPairs, 2, 1>(giver, cost_of, least, most);
    case 2 * 8 + 2:
      return StepsInVain<kPairs, 2, 2>(giver, cost_of, least, most);
    case 2 * 8 + 3:
      return StepsInVain<kPairs, 2, 3>(giver, cost_of, least, most);
    case 2 * 8 + 4:
      return StepsInVain<kPairs, 2, 4>(giver, cost_of, least, most);
    case 2 * 8 + 5:
      return StepsInVain<kPairs, 2, 5>(giver, cost_of, least, most);
    case 2 * 8 + 6:
      return StepsInVain<kPairs, 2, 6>(giver, cost_of, least, most);
    case 3 * 8 + 1:
      return StepsInVain<kPairs, 3, 1>(giver, cost_of, least, most);
    case 3 * 8 + 2:
      return StepsInVain<kPairs, 3, 2>(giver, cost_of, least, most);
    case 3 * 8 + 3:
      return StepsInVain<kPairs, 3, 3>(giver, cost_of, least, most);
    case 3 * 8 + 4:
      return StepsInVain<kPairs, 3, 4>(giver, cost_of, least, most);
    case 3 * 8 + 5:
      return StepsInVain<kPairs, 3, 5>(giver, cost_of, least, most);
    case 3 * 8 + 6:
      return StepsInVain<kPairs, 3, 6>(giver, cost_of, least, most);
    case 4 * 8 + 1:
      return StepsInVain<kPairs, 4, 1>(giver, cost_of, least, most);
    case 4 * 8 + 2:
      return StepsInVain<kPairs, 4, 2>(giver, cost_of, least, most);
    case 4 * 8 + 3:
      return StepsInVain<kPairs, 4, 3>(giver, cost_of, least, most);
    case 4 * 8 + 4:
      return StepsInVain<kPairs, 4, 4>(giver, cost_of, least, most);
    case 4 * 8 + 5:
      return StepsInVain<kPairs, 4, 5>(giver, cost_of, least, most);
    case 4 * 8 + 6:
      return StepsInVain<kPairs, 4, 6>(giver, cost_of, least, most);
    default:
      return std::nullopt;
  }
}

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_BALANCE_FEW_ITEMS_H_
