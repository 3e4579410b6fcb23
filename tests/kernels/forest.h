// Sequences that share prefixes, and the row that they must make, followed token by token. Shares
// no code with the library.

#ifndef BATCHPLAN_TESTS_KERNELS_FOREST_H_
#define BATCHPLAN_TESTS_KERNELS_FOREST_H_

#include <cstddef>
#include <cstdint>
#include <ostream>
#include <random>
#include <vector>

namespace batchplan::kernels {

struct Forest {
  std::vector<uint32_t> lengths;
  std::vector<uint32_t> shared;

  uint32_t new_tokens() const;
  uint32_t longest() const;
};

void PrintTo(const Forest& forest, std::ostream* out);

// `count` answers of up to `longest` tokens to one prompt.
Forest Star(std::mt19937& random, uint32_t count, uint32_t prompt, uint32_t longest);
// `count` turns, each of which continues the one before.
Forest Chain(uint32_t count, uint32_t tokens_a_turn);
// A sequence of `count` turns, followed by sequences that leave it after each turn, the last turn
// first.
Forest Comb(uint32_t count, uint32_t tokens_a_turn);
// Up to `most` sequences. Some share as much as possible, some are copies or prefixes of the one
// before, and some are empty.
Forest RandomForest(std::mt19937& random, uint32_t most, uint32_t longest);
// One forest of each shape that is likely to break a search.
std::vector<Forest> EdgeForests(std::mt19937& random);

struct NaiveForest {
  explicit NaiveForest(const Forest& forest);

  // The cells that hold each sequence's tokens.
  std::vector<std::vector<int32_t>> paths;
  // For each cell, the sequence that introduced its token, and the token's place in that sequence.
  std::vector<int32_t> sequence_ids;
  std::vector<int32_t> position_ids;
};

}  // namespace batchplan::kernels

#endif  // BATCHPLAN_TESTS_KERNELS_FOREST_H_
