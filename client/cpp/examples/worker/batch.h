// A global batch as a trainer holds it: padded tensors, one row a sequence.

#ifndef BATCHPLAN_CLIENT_CPP_EXAMPLES_WORKER_BATCH_H_
#define BATCHPLAN_CLIENT_CPP_EXAMPLES_WORKER_BATCH_H_

#include <cstddef>
#include <cstdint>
#include <vector>

namespace batchplan::examples {

// What padding holds where a token id or a label would stand.
inline constexpr int64_t kPadToken = 0;
inline constexpr int64_t kNoLabel = -100;

struct Batch {
  // Tokens of each sequence.
  std::vector<uint32_t> lengths;
  // Of the longest.
  size_t width = 0;

  // [sequences, width]
  std::vector<int64_t> input_ids;
  // [sequences, width] 1 where a token counts towards the loss: the response, not the prompt.
  std::vector<uint8_t> loss_mask;
  // [sequences] Of each sequence as a whole.
  std::vector<float> advantages;
  // [sequences] Tokens that have a loss: what a sequence's mean divides by, also on a rank that
  // holds a part of it.
  std::vector<float> denominators;
  // [sequences] The weight of a token's loss in the batch's: 1 / (denominator * sequences).
  std::vector<float> loss_scales;

  size_t sequences() const { return lengths.size(); }
};

// A random batch of lengths from 1 to `longest`, many short and few long, and tokens below
// `vocabulary`; the same for the same seed.
Batch MakeBatch(size_t sequences, uint32_t longest, int64_t vocabulary, uint64_t seed);

}  // namespace batchplan::examples

#endif  // BATCHPLAN_CLIENT_CPP_EXAMPLES_WORKER_BATCH_H_
