// Reports of a job, and the fits that they lead to.

#ifndef BATCHPLAN_TESTS_SERVER_FITTING_RANDOM_FIT_H_
#define BATCHPLAN_TESTS_SERVER_FITTING_RANDOM_FIT_H_

#include <cstdint>

#include "server/fitting/job_fit.h"
#include "tests/server/fitting/timings.h"

namespace batchplan::testing {

// One to eight micro-batches, with peaks, and with their sequences where the worker says them.
inline StepReport RandomReport(RandomStream& random, uint64_t step, bool says_sequences = false) {
  const TrueCosts truth = {.per_token = 0.01, .per_token_squared = 1e-6, .per_microbatch = 30};
  StepReport report = {.step = step, .microbatches = {}};
  const uint64_t count = random.Between(1, 8);
  for (uint64_t i = 0; i < count; ++i) {
    const TimingSample sample = TimedWithSequences(random, VariedMicrobatch(random), truth, {});
    const auto tokens = static_cast<uint64_t>(sample.tokens);
    report.microbatches.push_back({.tokens = tokens,
                                   .tokens_squared = static_cast<uint64_t>(sample.tokens_squared),
                                   .milliseconds = sample.milliseconds,
                                   .peak_bytes = 20'000'000'000 + 1'000'000 * tokens});
    if (says_sequences) {
      report.microbatches.back().sequences = static_cast<uint64_t>(sample.sequences);
    }
  }
  return report;
}

// After 0 .. 60 reports, of workers none of which or nearly all of which say their sequences.
inline JobFit RandomFit(RandomStream& random) {
  JobFit fit;
  const uint64_t reports = random.Between(0, 60);
  const uint32_t says_percent = random.OneOf<uint32_t>({0, 95, 100});
  for (uint64_t step = 0; step < reports; ++step) {
    AddReport(RandomReport(random, step, random.Chance(says_percent)), fit);
  }
  return fit;
}

}  // namespace batchplan::testing

#endif  // BATCHPLAN_TESTS_SERVER_FITTING_RANDOM_FIT_H_
