// Micro-batches and their times by known costs, with noise and stragglers.

#ifndef BATCHPLAN_TESTS_SERVER_FITTING_TIMINGS_H_
#define BATCHPLAN_TESTS_SERVER_FITTING_TIMINGS_H_

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "server/fitting/robust_fit.h"
#include "tests/support/generators.h"

namespace batchplan::testing {

// Costs in milliseconds.
struct TrueCosts {
  double per_token = 0;
  double per_token_squared = 0;
  double per_microbatch = 0;
  double per_sequence = 0;
  // For a token that another rank of the group holds, by size of the group.
  std::map<double, double> exchange = {};
  // For each load.
  std::vector<double> per_unit = {};

  double OfExchange(const TimingSample& sample) const {
    const auto size = exchange.find(sample.context_parallel);
    if (size == exchange.end()) return 0;
    return size->second * sample.tokens * (1 - 1 / sample.context_parallel);
  }
  double OfLoads(const TimingSample& sample) const {
    double sum = 0;
    for (size_t i = 0; i < per_unit.size(); ++i) sum += per_unit[i] * sample.loads[i];
    return sum;
  }
  double Of(const TimingSample& sample) const {
    return (per_token * sample.tokens + per_token_squared * sample.tokens_squared +
            OfLoads(sample)) /
               sample.context_parallel +
           per_microbatch + per_sequence * sample.sequences + OfExchange(sample);
  }
};

// How the times of a job vary.
struct Scatter {
  // The standard deviation of a time, relative to the time.
  double noise = 0.04;
  // The share of micro-batches that take 2 to 10 times as long.
  double stragglers = 0.05;
};

// In 2^low .. 2^high, with all octaves equally likely.
inline double LogUniform(RandomStream& random, double low, double high) {
  return std::exp2(low + (high - low) * random.Uniform());
}

// A micro-batch without a time: as many sequences of `mean` * (0.5 .. 1.5) tokens as fit `budget`,
// at least one.
inline TimingSample Microbatch(RandomStream& random, double budget, double mean) {
  TimingSample sample;
  for (;;) {
    const double length = std::max(1.0, std::floor(mean * (0.5 + random.Uniform())));
    if (sample.tokens > 0 && sample.tokens + length > budget) return sample;
    const double fitting = std::min(length, std::floor(budget));
    sample.tokens += fitting;
    sample.tokens_squared += fitting * fitting;
    ++sample.sequences;
  }
}

// A micro-batch of 256 .. 131072 tokens in sequences of 128 .. 131072 tokens: from many short ones
// to a single long one, so that every coefficient shows.
inline TimingSample VariedMicrobatch(RandomStream& random) {
  const double budget = LogUniform(random, 8, 17);
  return Microbatch(random, budget, LogUniform(random, 7, 17));
}

// A micro-batch of 1024 .. 32768 tokens in sequences of 128 .. 8192 tokens. In a few dozen of
// these, none is so unusual that it alone determines a coefficient.
inline TimingSample CommonMicrobatch(RandomStream& random) {
  const double budget = LogUniform(random, 10, 15);
  return Microbatch(random, budget, LogUniform(random, 7, 13));
}

// A common micro-batch with two loads: patches of 0 .. 12 images with 1024 patches each, and 0 .. 4
// seconds of sound with 50 frames each; `text_percent` of the micro-batches have neither.
inline TimingSample MultimodalMicrobatch(RandomStream& random, uint32_t text_percent = 25) {
  TimingSample sample = CommonMicrobatch(random);
  sample.loads = {1024.0 * static_cast<double>(random.Between(0, 12)),
                  50.0 * static_cast<double>(random.Between(0, 4))};
  if (random.Chance(text_percent)) sample.loads = {0, 0};
  return sample;
}

// The sample with its time.
inline TimingSample TimedWithSequences(RandomStream& random, TimingSample sample,
                                       const TrueCosts& costs, const Scatter& scatter) {
  sample.milliseconds = costs.Of(sample) * (1 + scatter.noise * random.Normal());
  if (random.Uniform() < scatter.stragglers) sample.milliseconds *= 2 + 8 * random.Uniform();
  return sample;
}

// The sample with its time, from a worker that does not report sequences.
inline TimingSample Timed(RandomStream& random, const TimingSample& sample, const TrueCosts& costs,
                          const Scatter& scatter) {
  TimingSample timed = TimedWithSequences(random, sample, costs, scatter);
  timed.sequences = 0;
  return timed;
}

}  // namespace batchplan::testing

#endif  // BATCHPLAN_TESTS_SERVER_FITTING_TIMINGS_H_
