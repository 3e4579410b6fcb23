// Batches of text, images, video and documents like those of trainers of vision-language models,
// and what an image encoder costs compared with the language model.

#ifndef BATCHPLAN_TESTS_BENCH_LOAD_BATCHES_H_
#define BATCHPLAN_TESTS_BENCH_LOAD_BATCHES_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/strings/string_view.h"
#include "server/planner/request/manifest.h"

namespace batchplan::bench {

// A transformer of `layers` layers of width `hidden`. It has 12 * layers * hidden^2 weights, each
// multiplied once a token, and needs 2 * layers * hidden * n multiplications for a token's
// attention to n tokens. So n tokens cost n + n^2 / (6 * hidden), in units of a token without
// attention. This holds for the language model too: the default cost model, which counts the whole
// square, has the cost of width 4,096.
struct Transformer {
  uint32_t layers;
  uint32_t hidden;

  double weights() const { return 12.0 * layers * hidden * hidden; }
  double per_square() const { return 1.0 / (6.0 * hidden); }
};

// They have 0.63, 6.4 and 1.9 billion weights.
inline constexpr Transformer kEncoder = {.layers = 32, .hidden = 1280};
inline constexpr Transformer kModelOf7B = {.layers = 32, .hidden = 4096};
inline constexpr Transformer kModelOf2B = {.layers = 24, .hidden = 2560};

// The encoder's cost of an image of `patches` patches, which attend to each other, in tokens of the
// language model. A patch costs a tenth of a token with 7 B, and a third with 2 B.
double EncoderCost(double patches, const Transformer& model);

// Kinds of sequences.
enum Kind : uint32_t { kTextKind, kImageKind, kVideoKind };

// Sequences with items: images, pages or frames. Four patches make one token.
struct LoadBatch {
  // One entry for each sequence.
  std::vector<uint32_t> lengths;
  std::vector<uint32_t> kinds;
  std::vector<double> patches;
  // One entry for each item in the order of sequences: its sequence, and its cost in the encoder.
  std::vector<uint32_t> item_sequences;
  std::vector<double> encoder_costs;

  // Views the arrays. Its loads are "encoder", which has items, and "patches".
  Manifest manifest() const;
  // A manifest without loads.
  Manifest text_manifest() const { return {.lengths = lengths}; }
};

// Batches of one kind for one language model, with the token budget to plan them for. Every
// sequence fits the budget.
struct LoadFamily {
  absl::string_view name;
  LoadBatch (*make)(size_t sequences, uint32_t budget, const Transformer& model, uint64_t seed);
  size_t sequences;
  uint32_t budget;
  Transformer model;

  LoadBatch Make(uint64_t seed) const { return make(sequences, budget, model, seed); }
};

// Five kinds of batches: chats with some images; instructions about images; images and videos of up
// to 64 frames; documents of up to 24 pages; reinforcement learning with 8 answers to each prompt
// with an image. All of them also have sequences of text alone.
std::span<const LoadFamily> LoadFamilies();

}  // namespace batchplan::bench

#endif  // BATCHPLAN_TESTS_BENCH_LOAD_BATCHES_H_
