#include "server/planner/fewest_bins/bounded_knapsack.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <utility>

namespace batchplan {
namespace {

// Of one kind, at most `times`.
struct Choice {
  uint32_t kind = 0;
  uint32_t length = 0;
  uint64_t value = 0;
  uint32_t times = 0;
};

std::vector<Choice> ByValuePerLength(const Kinds& kinds, std::span<const uint32_t> demand,
                                     std::span<const uint64_t> values) {
  std::vector<Choice> choices;
  for (uint32_t kind = 0; kind < kinds.size(); ++kind) {
    const uint32_t length = kinds.lengths[kind];
    const uint32_t times = std::min(demand[kind], kinds.capacity / length);
    if (times > 0 && values[kind] > 0) choices.push_back({kind, length, values[kind], times});
  }
  std::stable_sort(choices.begin(), choices.end(), [](const Choice& a, const Choice& b) {
    return a.value * b.length > b.value * a.length;
  });
  return choices;
}

struct Branching {
  KnapsackFill fill;
  bool complete = false;
};

Branching Branch(std::span<const Choice> choices, uint32_t capacity, uint64_t more_than,
                 uint64_t& steps) {
  // Of the choices from each on.
  std::vector<uint64_t> shortest(choices.size() + 1, uint64_t{capacity} + 1);
  for (size_t i = choices.size(); i-- > 0;) {
    shortest[i] = std::min<uint64_t>(shortest[i + 1], choices[i].length);
  }
  std::vector<std::pair<size_t, uint32_t>> taken;  // (choice, times)
  std::vector<std::pair<size_t, uint32_t>> best;
  uint64_t best_value = more_than;
  uint64_t value = 0;
  uint32_t room = capacity;
  bool complete = true;
  for (size_t next = 0;;) {
    // Forward: as much of every choice as there is room for, while more than the best may come.
    for (; next < choices.size() && room >= shortest[next]; ++next) {
      const Choice& choice = choices[next];
      if (value + choice.value * room / choice.length <= best_value) break;
      if (steps == 0) {
        complete = false;
        break;
      }
      --steps;
      const uint32_t times = std::min(choice.times, room / choice.length);
      if (times == 0) continue;
      taken.emplace_back(next, times);
      value += choice.value * times;
      room -= choice.length * times;
    }
    if (value > best_value) {
      best_value = value;
      best = taken;
    }
    if (!complete || taken.empty()) break;
    // Back: one less of the last choice.
    auto& [last, times] = taken.back();
    value -= choices[last].value;
    room += choices[last].length;
    next = last + 1;
    if (--times == 0) taken.pop_back();
  }
  Branching result{.fill = {.kinds = {}, .value = best.empty() ? 0 : best_value},
                   .complete = complete};
  result.fill.at_most = best_value;
  for (const auto& [choice, times] : best) {
    result.fill.kinds.insert(result.fill.kinds.end(), times, choices[choice].kind);
  }
  return result;
}

KnapsackFill ByCapacity(std::span<const Choice> choices, uint32_t capacity, uint64_t more_than) {
  // most[c]: the value of c tokens; took[row][c]: whether that took the row's item.
  std::vector<uint64_t> most(size_t{capacity} + 1, 0);
  std::vector<const Choice*> rows;
  for (const Choice& choice : choices) rows.insert(rows.end(), choice.times, &choice);
  std::vector<uint8_t> took(rows.size() * most.size(), 0);
  for (size_t row = 0; row < rows.size(); ++row) {
    uint8_t* const took_row = &took[row * most.size()];
    for (size_t room = capacity; room >= rows[row]->length; --room) {
      const uint64_t with = most[room - rows[row]->length] + rows[row]->value;
      took_row[room] = with > most[room];
      most[room] = std::max(most[room], with);
    }
  }
  KnapsackFill fill{.kinds = {}, .value = most[capacity], .at_most = most[capacity]};
  if (fill.value <= more_than) return {.kinds = {}, .value = 0, .at_most = more_than};
  size_t room = capacity;
  for (size_t row = rows.size(); row-- > 0;) {
    if (took[row * most.size() + room] == 0) continue;
    fill.kinds.push_back(rows[row]->kind);
    room -= rows[row]->length;
  }
  return fill;
}

}  // namespace

KnapsackFill FillKnapsack(const Kinds& kinds, std::span<const uint32_t> demand,
                          std::span<const uint64_t> values, uint64_t more_than, uint64_t& steps) {
  // Bytes of the table; and steps of the search where it would need more.
  constexpr uint64_t kMaxTable = uint64_t{1} << 22;
  constexpr uint64_t kMaxBranches = uint64_t{1} << 14;
  const std::vector<Choice> choices = ByValuePerLength(kinds, demand, values);
  if (choices.empty()) return {.kinds = {}, .value = 0, .at_most = more_than};
  uint64_t table = 0;
  for (const Choice& choice : choices) table += uint64_t{choice.times} * kinds.capacity;
  const bool has_table = table <= std::min(kMaxTable, steps);

  const uint64_t allowed = has_table ? table / 4 : std::min(steps, kMaxBranches);
  uint64_t left = allowed;
  Branching branching = Branch(choices, kinds.capacity, more_than, left);
  steps -= std::min(steps, allowed - left + choices.size());
  if (branching.complete) return branching.fill;
  if (has_table) {
    steps -= std::min(steps, table);
    return ByCapacity(choices, kinds.capacity, more_than);
  }
  branching.fill.at_most = choices[0].value * kinds.capacity / choices[0].length;
  return branching.fill;
}

}  // namespace batchplan
