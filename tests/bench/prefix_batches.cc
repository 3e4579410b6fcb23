#include "tests/bench/prefix_batches.h"

#include <algorithm>
#include <utility>

#include "tests/support/generators.h"

namespace batchplan::bench {
namespace {

using testing::RandomStream;

// Another seed, for a second stream of numbers.
uint64_t Other(uint64_t seed) { return seed + 1'000'003; }

void Append(PrefixBatch& batch, uint32_t length, uint32_t group, uint32_t prefix, uint32_t with) {
  batch.lengths.push_back(length);
  batch.group_ids.push_back(group);
  batch.shared_prefixes.push_back(prefix);
  batch.shared_with.push_back(with);
}

// Answers to prompts of low .. high tokens.
PrefixBatch Stars(size_t sequences, size_t group, uint32_t budget, uint64_t seed, uint32_t low,
                  uint32_t high, std::vector<uint32_t> (*answers)(size_t, uint64_t)) {
  RandomStream random(Other(seed));
  const std::vector<uint32_t> tokens = answers(sequences, seed);
  PrefixBatch batch;
  uint32_t prompt = 0;
  for (uint32_t i = 0; i < sequences; ++i) {
    const auto first = static_cast<uint32_t>(i - i % group);
    if (i == first) prompt = static_cast<uint32_t>(random.Between(low, high));
    const uint32_t answer = std::min(tokens[i], budget - prompt);
    Append(batch, prompt + answer, first / static_cast<uint32_t>(group), i == first ? 0 : prompt,
           first);
  }
  return batch;
}

PrefixBatch Maths(size_t sequences, size_t group, uint32_t budget, uint64_t seed) {
  return Stars(sequences, group, budget, seed, 60, 500, testing::MathsLengths);
}

PrefixBatch LongCot(size_t sequences, size_t group, uint32_t budget, uint64_t seed) {
  return Stars(sequences, group, budget, seed, 100, 1000, testing::LongCotLengths);
}

PrefixBatch Documents(size_t sequences, size_t group, uint32_t budget, uint64_t seed) {
  return Stars(sequences, group, budget, seed, 6000, 10000, testing::MathsLengths);
}

PrefixBatch LongDocuments(size_t sequences, size_t group, uint32_t budget, uint64_t seed) {
  return Stars(sequences, group, budget, seed, 24000, 36000, testing::MathsLengths);
}

// `group` rollouts of a task, with at most `most_turns` turns each. A turn's sequence is the
// history before it, its reasoning and its message. The history after it has no reasoning, so that
// the next turn begins with the history before this one.
PrefixBatch Agents(size_t sequences, size_t group, uint32_t budget, uint64_t seed,
                   uint32_t most_turns) {
  RandomStream random(Other(seed));
  const std::vector<uint32_t> reasoning = testing::MathsLengths(sequences, seed);
  const auto system = static_cast<uint32_t>(random.Between(1500, 3000));
  PrefixBatch batch;
  for (uint32_t task = 0; batch.lengths.size() < sequences; ++task) {
    const auto first = static_cast<uint32_t>(batch.lengths.size());
    const uint32_t prompt = system + static_cast<uint32_t>(random.Between(100, 1000));
    for (size_t rollout = 0; rollout < group; ++rollout) {
      const uint64_t turns = random.Between(2, most_turns);
      uint32_t common = task == 0 && rollout == 0 ? 0 : rollout == 0 ? system : prompt;
      uint32_t with = rollout == 0 ? 0 : first;
      uint32_t history = prompt;
      for (uint64_t turn = 0; turn < turns && batch.lengths.size() < sequences; ++turn) {
        const auto at = static_cast<uint32_t>(batch.lengths.size());
        const auto message = static_cast<uint32_t>(random.Between(50, 400));
        const uint32_t length = history + reasoning[at] / 2 + message;
        if (length > budget) break;
        Append(batch, length, task, common, with);
        common = history;
        with = at;
        history += message + static_cast<uint32_t>(random.Between(100, 2000));
      }
    }
  }
  return batch;
}

PrefixBatch ShortAgents(size_t sequences, size_t group, uint32_t budget, uint64_t seed) {
  return Agents(sequences, group, budget, seed, 10);
}

PrefixBatch LongAgents(size_t sequences, size_t group, uint32_t budget, uint64_t seed) {
  return Agents(sequences, group, budget, seed, 30);
}

// Grows search trees. Grow makes the leaves below a path of `depth` tokens; the first of them
// shares `common` tokens with an earlier one.
class SearchTrees {
 public:
  SearchTrees(size_t sequences, uint32_t budget, uint64_t seed)
      : sequences_(sequences),
        budget_(budget),
        random_(Other(seed)),
        // Each leaf but a tree's first begins at a fork, which has two segments.
        segments_(testing::MathsLengths(3 * sequences, seed)) {}

  PrefixBatch Run(size_t leaves) {
    while (batch_.lengths.size() < sequences_) {
      Grow(static_cast<uint32_t>(random_.Between(60, 500)), 0, 0, leaves);
      ++tree_;
    }
    return std::move(batch_);
  }

 private:
  void Grow(uint32_t depth, uint32_t common, uint32_t with, size_t leaves) {
    if (batch_.lengths.size() == sequences_) return;
    // Trees of up to 64 leaves have paths of up to seven segments, which fit.
    depth += std::min(segments_[next_++ % segments_.size()], budget_ / 8);
    const auto first = static_cast<uint32_t>(batch_.lengths.size());
    // One in ten ends early.
    if (leaves == 1 || random_.Chance(10)) {
      Append(batch_, depth, tree_, common, with);
      return;
    }
    Grow(depth, common, with, leaves / 2);
    Grow(depth, depth, first, leaves - leaves / 2);
  }

  const size_t sequences_;
  const uint32_t budget_;
  RandomStream random_;
  const std::vector<uint32_t> segments_;
  PrefixBatch batch_;
  uint32_t tree_ = 0;
  size_t next_ = 0;
};

// Trees of up to `group` leaves.
PrefixBatch Searches(size_t sequences, size_t group, uint32_t budget, uint64_t seed) {
  return SearchTrees(sequences, budget, seed).Run(group);
}

constexpr PrefixFamily kPrefixFamilies[] = {
    {"maths, stars of 8", Maths, 1024, 8, 16384},
    {"maths, stars of 16", Maths, 512, 16, 16384},
    {"long chains of thought, stars of 8", LongCot, 512, 8, 32768},
    {"long chains of thought, stars of 16", LongCot, 512, 16, 65536},
    {"prompts of 8k, stars of 8", Documents, 512, 8, 16384},
    {"prompts of 8k, stars of 16", Documents, 1024, 16, 32768},
    {"prompts of 30k, stars of 8", LongDocuments, 512, 8, 65536},
    {"prompts of 30k, stars of 16", LongDocuments, 512, 16, 65536},
    {"agents, up to 10 turns", ShortAgents, 1024, 4, 32768},
    {"agents, up to 30 turns", LongAgents, 1024, 4, 65536},
    {"searches, trees of 16", Searches, 1024, 16, 16384},
};

}  // namespace

std::span<const PrefixFamily> PrefixFamilies() { return kPrefixFamilies; }

}  // namespace batchplan::bench
