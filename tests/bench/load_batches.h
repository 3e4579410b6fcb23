// Batches of text, images, video and documents, as trainers of vision-language models have them,
// and what an image encoder costs beside the language model.

#ifndef BATCHPLAN_TESTS_BENCH_LOAD_BATCHES_H_
#define BATCHPLAN_TESTS_BENCH_LOAD_BATCHES_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/strings/string_view.h"
#include "server/planner/request/manifest.h"

namespace batchplan::bench {

// A transformer of `layers` layers of width `hidden`: 12 * layers * hidden^2 weights, each
// multiplied once for a token, and 2 * layers * hidden * n multiplications for its attention to n
// tokens. So n tokens cost n + n^2 / (6 * hidden), in tokens without attention; of the language
// model too, as the default cost model counts all of the square, which is that of 4,096.
struct Transformer {
  uint32_t layers;
  uint32_t hidden;

  double weights() const { return 12.0 * layers * hidden * hidden; }
  double per_square() const { return 1.0 / (6.0 * hidden); }
};

// 0.63, 6.4 and 1.9 billion weights.
inline constexpr Transformer kEncoder = {.layers = 32, .hidden = 1280};
inline constexpr Transformer kModelOf7B = {.layers = 32, .hidden = 4096};
inline constexpr Transformer kModelOf2B = {.layers = 24, .hidden = 2560};

// What the encoder takes for an image of so many patches, which attend to each other, in tokens of
// the language model: with 7 B a patch costs a tenth of a token, with 2 B a third.
double EncoderCost(double patches, const Transformer& model);

// Of sequences.
enum Kind : uint32_t { kTextKind, kImageKind, kVideoKind };

// Sequences with their items: images, pages, or frames. Four patches make one of a sequence's
// tokens.
struct LoadBatch {
  // One a sequence.
  std::vector<uint32_t> lengths;
  std::vector<uint32_t> kinds;
  std::vector<double> patches;
  // One an item, in the order of sequences: its sequence, and what the encoder takes for it.
  std::vector<uint32_t> item_sequences;
  std::vector<double> encoder_costs;

  // Views the arrays: the loads "encoder", which has items, and "patches".
  Manifest manifest() const;
  // Of tokens alone.
  Manifest text_manifest() const { return {.lengths = lengths}; }
};

// Batches of one kind for one language model, and the token budget that they are planned for, which
// holds every sequence.
struct LoadFamily {
  absl::string_view name;
  LoadBatch (*make)(size_t sequences, uint32_t budget, const Transformer& model, uint64_t seed);
  size_t sequences;
  uint32_t budget;
  Transformer model;

  LoadBatch Make(uint64_t seed) const { return make(sequences, budget, model, seed); }
};

// Five kinds. Text of chats with some images; instructions on images; images and video, of up to 64
// frames; documents of up to 24 pages; reinforcement learning, 8 answers to a prompt with an image.
// In each there are sequences of text alone.
std::span<const LoadFamily> LoadFamilies();

}  // namespace batchplan::bench

#endif  // BATCHPLAN_TESTS_BENCH_LOAD_BATCHES_H_
