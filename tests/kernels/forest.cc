#include "forest.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace batchplan::kernels {

uint32_t Forest::new_tokens() const {
  uint32_t tokens = 0;
  for (size_t i = 0; i < lengths.size(); ++i) tokens += lengths[i] - shared[i];
  return tokens;
}

uint32_t Forest::longest() const {
  return lengths.empty() ? 0 : *std::max_element(lengths.begin(), lengths.end());
}

void PrintTo(const Forest& forest, std::ostream* out) {
  *out << "lengths " << testing::PrintToString(forest.lengths) << ", shared "
       << testing::PrintToString(forest.shared);
}

Forest Star(std::mt19937& random, uint32_t count, uint32_t prompt, uint32_t longest) {
  Forest star;
  for (uint32_t i = 0; i < count; ++i) {
    star.lengths.push_back(prompt + static_cast<uint32_t>(random() % (longest + 1)));
    star.shared.push_back(i == 0 ? 0 : prompt);
  }
  return star;
}

Forest Chain(uint32_t count, uint32_t tokens_a_turn) {
  Forest chain;
  for (uint32_t i = 0; i < count; ++i) {
    chain.lengths.push_back((i + 1) * tokens_a_turn);
    chain.shared.push_back(i * tokens_a_turn);
  }
  return chain;
}

Forest Comb(uint32_t count, uint32_t tokens_a_turn) {
  Forest comb{{count * tokens_a_turn}, {0}};
  for (uint32_t i = count; i-- > 0;) {
    comb.lengths.push_back(i * tokens_a_turn + 2);
    comb.shared.push_back(i * tokens_a_turn);
  }
  return comb;
}

Forest RandomForest(std::mt19937& random, uint32_t most, uint32_t longest) {
  const auto below = [&](uint32_t bound) { return static_cast<uint32_t>(random() % bound); };
  Forest forest;
  const uint32_t count = below(most + 1);
  uint32_t before = 0;
  for (uint32_t i = 0; i < count; ++i) {
    uint32_t length = below(5) == 0 ? 0 : below(longest + 1);
    uint32_t shared = below(3) == 0 ? 0 : below(std::min(length, before) + 1);
    if (below(5) == 0) {  // a copy or a prefix of the one before
      length = below(2) == 0 ? before : below(before + 1);
      shared = length;
    } else if (below(5) == 0) {  // continues where the one before ended
      length = before + below(4);
      shared = before;
    }
    forest.lengths.push_back(length);
    forest.shared.push_back(shared);
    before = length;
  }
  return forest;
}

std::vector<Forest> EdgeForests(std::mt19937& random) {
  return {{},
          {{0, 0, 0}, {0, 0, 0}},
          {{5, 7, 4}, {0, 3, 2}},
          {{4, 4, 4, 2, 4}, {0, 4, 4, 2, 2}},
          Star(random, 16, 300, 40),
          Star(random, 100, 30, 3),
          Star(random, 65, 3, 0),
          Chain(500, 1),
          Chain(70, 7),
          Comb(500, 1),
          Comb(60, 5)};
}

NaiveForest::NaiveForest(const Forest& forest) {
  std::vector<int32_t> before;
  for (size_t i = 0; i < forest.lengths.size(); ++i) {
    std::vector<int32_t> path(before.begin(), before.begin() + forest.shared[i]);
    while (path.size() < forest.lengths[i]) {
      path.push_back(static_cast<int32_t>(sequence_ids.size()));
      sequence_ids.push_back(static_cast<int32_t>(i));
      position_ids.push_back(static_cast<int32_t>(path.size()) - 1);
    }
    paths.push_back(path);
    before = path;
  }
}

}  // namespace batchplan::kernels
