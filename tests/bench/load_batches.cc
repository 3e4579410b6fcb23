#include "tests/bench/load_batches.h"

#include <utility>

#include "tests/support/generators.h"

namespace batchplan::bench {
namespace {

using testing::RandomStream;

constexpr uint32_t kPatchesAToken = 4;

// A batch to which sequences are appended.
class Batch {
 public:
  Batch(uint32_t budget, const Transformer& model, uint64_t seed)
      : budget_(budget), model_(model), random_(seed) {}

  size_t size() const { return made_.lengths.size(); }
  RandomStream& random() { return random_; }

  // Appends a sequence with `text` tokens of text and these items. Items above the budget are left
  // out, as by data loaders.
  void Append(Kind kind, uint32_t text, const std::vector<uint32_t>& items) {
    const auto sequence = static_cast<uint32_t>(size());
    uint32_t length = text;
    uint32_t patches = 0;
    for (const uint32_t item : items) {
      if (length + item / kPatchesAToken > budget_) break;
      length += item / kPatchesAToken;
      patches += item;
      made_.item_sequences.push_back(sequence);
      made_.encoder_costs.push_back(EncoderCost(item, model_));
    }
    made_.lengths.push_back(length);
    made_.kinds.push_back(kind);
    made_.patches.push_back(patches);
  }

  LoadBatch Take() { return std::move(made_); }

 private:
  const uint32_t budget_;
  const Transformer model_;
  RandomStream random_;
  LoadBatch made_;
};

// The patches of an image in its own resolution, which are merged in squares of four.
uint32_t Image(RandomStream& random, double median = 1600, double sigma = 0.9, uint32_t low = 256,
               uint32_t high = 16384) {
  const uint32_t patches = random.Lognormal(median, sigma, low, high);
  return patches - patches % kPatchesAToken;
}

std::vector<uint32_t> Images(RandomStream& random, uint64_t count) {
  std::vector<uint32_t> images;
  images.reserve(count);
  for (uint64_t i = 0; i < count; ++i) images.push_back(Image(random));
  return images;
}

LoadBatch TextAndImages(size_t sequences, uint32_t budget, const Transformer& model,
                        uint64_t seed) {
  Batch batch(budget, model, seed);
  RandomStream& random = batch.random();
  while (batch.size() < sequences) {
    if (random.Chance(60)) {
      batch.Append(kTextKind, random.Lognormal(700, 1.1, 16, budget / 2), {});
    } else {
      const uint32_t text = random.Lognormal(300, 0.8, 16, 4096);
      batch.Append(kImageKind, text, Images(random, random.Between(1, 4)));
    }
  }
  return batch.Take();
}

LoadBatch ImageInstructions(size_t sequences, uint32_t budget, const Transformer& model,
                            uint64_t seed) {
  Batch batch(budget, model, seed);
  RandomStream& random = batch.random();
  while (batch.size() < sequences) {
    const uint32_t text = random.Lognormal(300, 0.8, 16, 4096);
    if (random.Chance(10)) {
      batch.Append(kTextKind, text, {});
    } else {
      const uint64_t images = random.Chance(75) ? 1 : random.Between(2, 4);
      batch.Append(kImageKind, text, Images(random, images));
    }
  }
  return batch.Take();
}

LoadBatch ImagesAndVideo(size_t sequences, uint32_t budget, const Transformer& model,
                         uint64_t seed) {
  Batch batch(budget, model, seed);
  RandomStream& random = batch.random();
  while (batch.size() < sequences) {
    const uint32_t text = random.Lognormal(300, 0.8, 16, 4096);
    const uint64_t which = random.Between(1, 100);
    if (which <= 20) {
      batch.Append(kTextKind, random.Lognormal(700, 1.1, 16, budget / 4), {});
    } else if (which <= 60) {
      batch.Append(kImageKind, text, Images(random, random.Between(1, 2)));
    } else {
      // All frames of a video have one size.
      const uint32_t frame = Image(random, 500, 0.4, 256, 1024);
      batch.Append(kVideoKind, text, std::vector<uint32_t>(random.Between(8, 64), frame));
    }
  }
  return batch.Take();
}

LoadBatch Documents(size_t sequences, uint32_t budget, const Transformer& model, uint64_t seed) {
  Batch batch(budget, model, seed);
  RandomStream& random = batch.random();
  while (batch.size() < sequences) {
    if (random.Chance(15)) {
      batch.Append(kTextKind, random.Lognormal(1500, 1.0, 16, budget / 2), {});
    } else {
      // All pages of a document have one size.
      const uint32_t page = Image(random, 4000, 0.4, 1024, 8192);
      const std::vector<uint32_t> pages(random.Lognormal(4, 0.8, 1, 24), page);
      batch.Append(kImageKind, random.Lognormal(300, 0.8, 16, 4096), pages);
    }
  }
  return batch.Take();
}

LoadBatch AnswersOnImages(size_t sequences, uint32_t budget, const Transformer& model,
                          uint64_t seed) {
  constexpr size_t kAnswers = 8;
  Batch batch(budget, model, seed);
  RandomStream& random = batch.random();
  while (batch.size() < sequences) {
    const auto prompt = static_cast<uint32_t>(random.Between(50, 400));
    std::vector<uint32_t> images;
    if (!random.Chance(20)) images.push_back(Image(random, 2000, 0.8));
    for (size_t i = 0; i < kAnswers && batch.size() < sequences; ++i) {
      const uint32_t answer = random.Lognormal(800, 0.9, 16, budget / 2);
      batch.Append(images.empty() ? kTextKind : kImageKind, prompt + answer, images);
    }
  }
  return batch.Take();
}

constexpr LoadFamily kLoadFamilies[] = {
    {"text and images, 7 B", TextAndImages, 1024, 16384, kModelOf7B},
    {"text and images, 2 B", TextAndImages, 1024, 16384, kModelOf2B},
    {"images, 7 B", ImageInstructions, 1024, 8192, kModelOf7B},
    {"images, 2 B", ImageInstructions, 1024, 8192, kModelOf2B},
    {"images and video, 7 B", ImagesAndVideo, 512, 32768, kModelOf7B},
    {"images and video, 2 B", ImagesAndVideo, 512, 32768, kModelOf2B},
    {"documents, 7 B", Documents, 512, 32768, kModelOf7B},
    {"documents, 2 B", Documents, 512, 32768, kModelOf2B},
    {"answers on images, 7 B", AnswersOnImages, 1024, 16384, kModelOf7B},
    {"answers on images, 2 B", AnswersOnImages, 1024, 16384, kModelOf2B},
};

}  // namespace

double EncoderCost(double patches, const Transformer& model) {
  return kEncoder.weights() / model.weights() *
         (patches + kEncoder.per_square() * patches * patches);
}

Manifest LoadBatch::manifest() const {
  return {.lengths = lengths,
          .loads = {{.name = "encoder"}, {.name = "patches", .values = patches}},
          .items = {{.load = "encoder", .sequences = item_sequences, .values = encoder_costs}},
          .kinds = kinds};
}

std::span<const LoadFamily> LoadFamilies() { return kLoadFamilies; }

}  // namespace batchplan::bench
