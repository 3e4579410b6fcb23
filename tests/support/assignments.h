// Enumerates all ways to give each of a few items one of a few places.

#ifndef BATCHPLAN_TESTS_SUPPORT_ASSIGNMENTS_H_
#define BATCHPLAN_TESTS_SUPPORT_ASSIGNMENTS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace batchplan::testing {

// Calls visit(place_of) for every assignment of `items` items to `places` places; once if there are
// no items. place_of[i] is the place of item i. O(places^items).
template <typename Visit>
void ForEachAssignment(size_t items, uint32_t places, Visit visit) {
  std::vector<uint32_t> place_of(items, 0);
  size_t digit = 0;
  do {
    visit(place_of);
    // Counts up in base `places`, with one digit for each item.
    digit = 0;
    while (digit < items && ++place_of[digit] == places) place_of[digit++] = 0;
  } while (digit < items);
}

// The shortest step over all assignments of items to up to `most_slots` micro-batches a rank; none
// if no assignment is a plan. time_of(bin_of, slots) is the step time of an assignment, where bin r
// * slots + s is slot s of rank r; none if it is no plan.
template <typename TimeOf>
std::optional<double> ShortestStep(size_t items, uint32_t ranks, uint32_t most_slots,
                                   TimeOf time_of) {
  std::optional<double> best;
  for (uint32_t slots = 1; slots <= most_slots; ++slots) {
    ForEachAssignment(items, ranks * slots, [&](const std::vector<uint32_t>& bin_of) {
      const std::optional<double> time = time_of(bin_of, slots);
      if (time && (!best || *time < *best)) best = time;
    });
  }
  return best;
}

}  // namespace batchplan::testing

#endif  // BATCHPLAN_TESTS_SUPPORT_ASSIGNMENTS_H_
