#include "tests/bench/load_judge.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <set>

namespace batchplan::bench {
namespace {

[[noreturn]] void Fail(const char* message) {
  std::fprintf(stderr, "%s\n", message);
  std::abort();
}

void CheckShape(const LoadBatch& batch, const testing::RankMicrobatches& plan, uint32_t budget) {
  std::vector<uint32_t> copies(batch.lengths.size(), 0);
  for (const auto& rank : plan) {
    if (rank.size() != plan[0].size()) Fail("ranks differ in their micro-batches");
    for (const auto& microbatch : rank) {
      uint64_t tokens = 0;
      for (const uint32_t sequence : microbatch) {
        ++copies.at(sequence);
        tokens += batch.lengths[sequence];
      }
      if (tokens > budget) Fail("a micro-batch is over the budget");
    }
  }
  if (std::ranges::any_of(copies, [](uint32_t n) { return n != 1; })) {
    Fail("a plan does not have every sequence once");
  }
}

// Deals the items: the costliest first, to the rank with the least so far; of equals, the first in
// either case. Returns the largest sum of a rank.
double Deal(const LoadBatch& batch, std::vector<uint32_t> items, size_t ranks,
            std::vector<uint32_t>& item_ranks) {
  const std::vector<double>& costs = batch.encoder_costs;
  std::ranges::sort(items, [&](uint32_t a, uint32_t b) {
    return costs[a] != costs[b] ? costs[a] > costs[b] : a < b;
  });
  std::vector<double> sums(ranks, 0);
  for (const uint32_t item : items) {
    size_t least = 0;
    for (size_t rank = 1; rank < ranks; ++rank) {
      if (sums[rank] < sums[least]) least = rank;
    }
    sums[least] += costs[item];
    item_ranks[item] = static_cast<uint32_t>(least);
  }
  return *std::ranges::max_element(sums);
}

// The items of each sequence.
std::vector<std::vector<uint32_t>> ItemsOf(const LoadBatch& batch) {
  std::vector<std::vector<uint32_t>> items(batch.lengths.size());
  for (uint32_t item = 0; item < batch.item_sequences.size(); ++item) {
    items[batch.item_sequences[item]].push_back(item);
  }
  return items;
}

}  // namespace

LoadTimes JudgeLoads(const LoadBatch& batch, const Transformer& model,
                     const testing::RankMicrobatches& plan, uint32_t budget) {
  CheckShape(batch, plan, budget);
  const std::vector<std::vector<uint32_t>> items_of = ItemsOf(batch);
  const size_t slots = plan[0].size();
  LoadTimes times;
  times.item_ranks.resize(batch.item_sequences.size());
  times.patches.resize(plan.size() * slots, 0);
  std::vector<double> rank_texts(plan.size(), 0);
  std::vector<double> rank_encoders(plan.size(), 0);
  double all_dealt = 0;
  for (size_t slot = 0; slot < slots; ++slot) {
    double slowest_text = 0;
    double slowest_encoder = 0;
    std::vector<uint32_t> items;
    std::set<uint32_t> kinds;
    size_t ranks_with_others = 0;
    for (size_t rank = 0; rank < plan.size(); ++rank) {
      double text = 0;
      double encoder = 0;
      bool others = false;
      for (const uint32_t sequence : plan[rank][slot]) {
        const double length = batch.lengths[sequence];
        text += length + model.per_square() * length * length;
        for (const uint32_t item : items_of[sequence]) {
          encoder += batch.encoder_costs[item];
          items.push_back(item);
        }
        times.patches[rank * slots + slot] += batch.patches[sequence];
        kinds.insert(batch.kinds[sequence]);
        others |= batch.kinds[sequence] != kTextKind;
      }
      slowest_text = std::max(slowest_text, text);
      slowest_encoder = std::max(slowest_encoder, encoder);
      rank_texts[rank] += text;
      rank_encoders[rank] += encoder;
      ranks_with_others += others;
    }
    const double dealt = Deal(batch, std::move(items), plan.size(), times.item_ranks);
    all_dealt += dealt;
    times.lockstep += slowest_encoder + slowest_text;
    times.dealt_lockstep += dealt + slowest_text;
    times.kinds_alike &= kinds.size() <= 1;
    times.kinds_together &= ranks_with_others == 0 || ranks_with_others == plan.size();
  }
  for (size_t rank = 0; rank < plan.size(); ++rank) {
    times.accumulated = std::max(times.accumulated, rank_texts[rank] + rank_encoders[rank]);
    times.dealt_accumulated = std::max(times.dealt_accumulated, rank_texts[rank] + all_dealt);
  }
  return times;
}

}  // namespace batchplan::bench
