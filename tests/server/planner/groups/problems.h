// Random context problems, and a check whether slots solve one.

#ifndef BATCHPLAN_TESTS_SERVER_PLANNER_GROUPS_PROBLEMS_H_
#define BATCHPLAN_TESTS_SERVER_PLANNER_GROUPS_PROBLEMS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "server/planner/pass/context_problem.h"
#include "tests/support/generators.h"

namespace batchplan::testing {

// A pool and its limits, from which ContextOf makes a problem.
struct PoolOptions {
  uint32_t pool = 8;
  // The budget of one rank.
  uint32_t budget = 1024;
  uint32_t min_size = 1;
  uint32_t max_size = 0;  // 0: the pool
  uint32_t length_multiple = 1;
  // In thousandths of a token's cost.
  uint64_t exchange = 0;
  Cost per_microbatch = 0;
  // Whether rows are padded to their capacity.
  bool full_rows = false;
};

// The powers of two that divide the pool, and the pool.
inline std::vector<uint32_t> SizesOf(const PoolOptions& options) {
  std::vector<uint32_t> sizes;
  const uint32_t most = options.max_size == 0 ? options.pool : options.max_size;
  if (options.pool % options.min_size == 0) {
    for (uint64_t size = options.min_size; size <= std::min(most, options.pool); size *= 2) {
      sizes.push_back(static_cast<uint32_t>(size));
    }
  }
  if (most >= options.pool && (sizes.empty() || sizes.back() != options.pool)) {
    sizes.push_back(options.pool);
  }
  return sizes;
}

// Each item consists of sequences with these tokens. A token costs 24,576, plus 1 for each token of
// its sequence, divided among the ranks of its group.
inline ContextProblem ContextOf(const std::vector<std::vector<uint32_t>>& items,
                                const PoolOptions& options) {
  constexpr uint64_t kToken = 24576;
  ContextProblem problem = {.pool = options.pool,
                            .per_microbatch = options.per_microbatch,
                            .full_rows = options.full_rows};
  for (const uint32_t ranks : SizesOf(options)) {
    ContextSize& size = problem.sizes.emplace_back(ContextSize{.ranks = ranks});
    const uint64_t multiple =
        std::lcm<uint64_t>(options.length_multiple, ranks > 1 ? 2 * ranks : 1);
    size.capacity = uint64_t{ranks} * options.budget / multiple * multiple;
    if (options.full_rows) size.whole_row = size.capacity * kToken / ranks;
    for (const std::vector<uint32_t>& sequences : items) {
      uint64_t tokens = 0;
      Cost cost = 0;
      for (const uint32_t length : sequences) {
        const uint64_t aligned = (length + multiple - 1) / multiple * multiple;
        tokens += aligned;
        cost += aligned * (kToken + aligned) / ranks +
                kToken * aligned * options.exchange * (ranks - 1) / 1000 / ranks;
      }
      size.tokens.push_back(static_cast<uint32_t>(tokens));
      size.costs.push_back(cost);
      if (options.full_rows) size.own_tokens.push_back(tokens * kToken / ranks);
    }
  }
  for (const std::vector<uint32_t>& sequences : items) {
    problem.counts.push_back(static_cast<uint32_t>(sequences.size()));
  }
  return problem;
}

inline ContextProblem ContextOfLengths(const std::vector<uint32_t>& lengths,
                                       const PoolOptions& options) {
  std::vector<std::vector<uint32_t>> items;
  for (const uint32_t length : lengths) items.push_back({length});
  return ContextOf(items, options);
}

// Up to `most` items on a pool of up to `most_ranks` ranks; some problems have no solution.
inline ContextProblem RandomContext(RandomStream& random, size_t most, uint32_t most_ranks) {
  PoolOptions options;
  options.pool = static_cast<uint32_t>(random.Between(1, most_ranks));
  options.budget = static_cast<uint32_t>(random.Between(8, 64));
  options.min_size = random.Chance(70) ? 1 : random.OneOf<uint32_t>({2, 4});
  options.max_size = random.Chance(60) ? 0 : random.OneOf<uint32_t>({1, 2, 4, 8});
  options.max_size = options.max_size == 0 ? 0 : std::max(options.max_size, options.min_size);
  options.length_multiple = random.OneOf<uint32_t>({1, 1, 1, 4});
  options.exchange = random.OneOf<uint64_t>({0, 65, 260, 1500});
  options.per_microbatch = random.OneOf<Cost>({0, 0, 100'000, 2'000'000});
  options.full_rows = random.Chance(30);
  if (SizesOf(options).empty()) options.max_size = 0;
  const uint32_t longest = options.budget * random.OneOf<uint32_t>({1, 1, 2, options.pool});
  const bool grouped = random.Chance(20);
  std::vector<std::vector<uint32_t>> items(random.Between(1, most));
  for (auto& sequences : items) {
    sequences.resize(grouped ? random.Between(1, 3) : 1);
    for (uint32_t& length : sequences) {
      length = static_cast<uint32_t>(random.Between(1, random.Chance(50) ? longest : 8));
    }
  }
  ContextProblem problem = ContextOf(items, options);
  if (!options.full_rows && random.Chance(10)) {
    for (ContextSize& size : problem.sizes) {
      for (Cost& cost : size.costs) cost = random.Between(0, 3) * 1000;
    }
  }
  if (random.Chance(20)) problem.max_sequences = static_cast<uint32_t>(random.Between(1, 4));
  if (random.Chance(30)) problem.slots.minimum = random.Between(1, 4);
  if (random.Chance(30)) problem.slots.multiple = random.Between(1, 4);
  problem.allow_empty = random.Chance(15);
  problem.synchronization =
      random.Chance(50) ? Synchronization::kLockstep : Synchronization::kAccumulated;
  problem.effort = random.OneOf<Effort>({Effort::kFast, Effort::kDefault});
  return problem;
}

// Which rule the slots break; empty if none.
inline std::string FaultOf(const ContextProblem& problem, const ContextSlots& slots) {
  std::vector<int> seen(problem.items(), 0);
  if (slots.empty() || slots.size() < problem.slots.minimum ||
      slots.size() % problem.slots.multiple != 0) {
    return absl::StrCat(slots.size(), " slots");
  }
  for (const auto& slot : slots) {
    uint64_t ranks = 0;
    uint32_t before = ~uint32_t{0};
    for (const ContextGroup& group : slot) {
      const ContextSize& size = problem.sizes.at(group.size);
      if (size.ranks > before) return "groups do not descend";
      before = size.ranks;
      ranks += size.ranks;
      uint64_t tokens = 0;
      uint64_t sequences = 0;
      for (const uint32_t item : group.items) {
        ++seen.at(item);
        tokens += size.tokens[item];
        sequences += problem.counts.empty() ? 1 : problem.counts[item];
      }
      if (tokens > size.capacity) return "too many tokens";
      if (problem.max_sequences > 0 && sequences > problem.max_sequences)
        return "too many sequences";
      if (group.items.empty() && !problem.allow_empty) return "an empty group";
    }
    if (ranks != problem.pool) return absl::StrCat("groups of ", ranks, " ranks");
  }
  for (size_t item = 0; item < seen.size(); ++item) {
    if (seen[item] != 1) return absl::StrCat("item ", item, " stands ", seen[item], " times");
  }
  return "";
}

inline std::string Describe(const ContextProblem& problem) {
  std::string text = absl::StrCat(
      "pool ", problem.pool, " counts ", absl::StrJoin(problem.counts, ","), " max_sequences ",
      problem.max_sequences, " per_microbatch ", problem.per_microbatch, " slots ",
      problem.slots.minimum, " x ", problem.slots.multiple, " allow_empty ", problem.allow_empty,
      problem.synchronization == Synchronization::kLockstep ? " lockstep" : " accumulated");
  for (const ContextSize& size : problem.sizes) {
    absl::StrAppend(&text, "; size ", size.ranks, " capacity ", size.capacity, " tokens ",
                    absl::StrJoin(size.tokens, ","), " costs ", absl::StrJoin(size.costs, ","),
                    " whole row ", size.whole_row, " own tokens ",
                    absl::StrJoin(size.own_tokens, ","));
  }
  return text;
}

}  // namespace batchplan::testing

#endif  // BATCHPLAN_TESTS_SERVER_PLANNER_GROUPS_PROBLEMS_H_
