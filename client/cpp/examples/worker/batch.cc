#include "client/cpp/examples/worker/batch.h"

#include <algorithm>
#include <cmath>
#include <random>

namespace batchplan::examples {
namespace {

// In [0, 1), and the same on every machine, which std's distributions do not promise.
double Uniform(std::mt19937_64& random) { return static_cast<double>(random() >> 11) * 0x1p-53; }

}  // namespace

Batch MakeBatch(size_t sequences, uint32_t longest, int64_t vocabulary, uint64_t seed) {
  std::mt19937_64 random(seed);
  Batch batch;
  for (size_t s = 0; s < sequences; ++s) {
    const double share = std::pow(Uniform(random), 2);
    batch.lengths.push_back(1 + static_cast<uint32_t>(share * longest));
    batch.width = std::max<size_t>(batch.width, batch.lengths.back());
  }
  batch.input_ids.assign(sequences * batch.width, kPadToken);
  batch.loss_mask.assign(sequences * batch.width, 0);
  for (size_t s = 0; s < sequences; ++s) {
    const uint32_t length = batch.lengths[s];
    const auto prompt = static_cast<uint32_t>(Uniform(random) * length / 2);
    uint32_t trained = 0;
    for (uint32_t t = 0; t < length; ++t) {
      batch.input_ids[s * batch.width + t] =
          static_cast<int64_t>(Uniform(random) * static_cast<double>(vocabulary));
      // No token predicts the first token of a sequence.
      if (t == 0 || t < prompt) continue;
      batch.loss_mask[s * batch.width + t] = 1;
      ++trained;
    }
    const auto denominator = static_cast<float>(trained);
    batch.advantages.push_back(static_cast<float>(2 * Uniform(random) - 0.5));
    batch.denominators.push_back(denominator);
    batch.loss_scales.push_back(trained == 0 ? 0
                                             : 1 / (denominator * static_cast<float>(sequences)));
  }
  return batch;
}

}  // namespace batchplan::examples
