// Reports of a job, and the fits that they lead to.

#ifndef BATCHPLAN_TESTS_SERVER_FITTING_RANDOM_FIT_H_
#define BATCHPLAN_TESTS_SERVER_FITTING_RANDOM_FIT_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "server/fitting/job_fit.h"
#include "tests/server/fitting/timings.h"

namespace batchplan::testing {

// The true costs on one rank in RandomReport.
inline const TrueCosts kReportedCosts = {
    .per_token = 0.01, .per_token_squared = 1e-6, .per_microbatch = 30};

// One to eight micro-batches with peaks, and with their sequences if the worker reports them.
inline StepReport RandomReport(RandomStream& random, uint64_t step, bool says_sequences = false) {
  StepReport report = {.step = step, .microbatches = {}};
  const uint64_t count = random.Between(1, 8);
  for (uint64_t i = 0; i < count; ++i) {
    const TimingSample sample =
        TimedWithSequences(random, VariedMicrobatch(random), kReportedCosts, {});
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

// RandomReport for context-parallel groups of 1 to 16 ranks, and for stages with all of the model
// or parts of it.
inline StepReport RandomReportOfGroups(RandomStream& random, uint64_t step, bool says_sequences) {
  StepReport report = {.step = step, .microbatches = {}};
  const uint64_t count = random.Between(1, 8);
  for (uint64_t i = 0; i < count; ++i) {
    TimingSample sample = VariedMicrobatch(random);
    sample.context_parallel = random.OneOf<double>({1, 2, 4, 8, 16});
    sample = TimedWithSequences(random, sample, kReportedCosts, {});
    const double share = random.OneOf<double>({1, 0.25, 0.125, 0.3});
    report.microbatches.push_back(
        {.tokens = static_cast<uint64_t>(sample.tokens),
         .tokens_squared = static_cast<uint64_t>(sample.tokens_squared),
         .milliseconds = sample.milliseconds * share,
         .sequences = says_sequences ? static_cast<uint64_t>(sample.sequences) : 0,
         .context_parallel = static_cast<uint32_t>(sample.context_parallel),
         .model_share = share});
  }
  return report;
}

// Adds loads of these names to a report: every second micro-batch has them and lasts 0.02 ms longer
// for each unit.
inline StepReport WithLoads(RandomStream& random, StepReport report,
                            const std::vector<std::string>& names) {
  report.loads = names;
  for (ReportedMicrobatch& one : report.microbatches) {
    one.loads.assign(names.size(), 0);
    if (random.Chance(50)) continue;
    for (double& load : one.loads) {
      load = static_cast<double>(random.Between(1, 10000));
      one.milliseconds += 0.02 * load / one.context_parallel * one.model_share;
    }
  }
  return report;
}

// A fit after 0 .. 60 reports. Either no worker reports sequences or nearly all do. Some jobs have
// context-parallel groups, or one to eight loads, whose names may change.
inline JobFit RandomFit(RandomStream& random) {
  JobFit fit;
  const uint64_t reports = random.Between(0, 60);
  const uint32_t says_percent = random.OneOf<uint32_t>({0, 95, 100});
  const uint32_t groups_percent = random.OneOf<uint32_t>({0, 0, 50, 100});
  const size_t most_loads = random.OneOf<size_t>({0, 0, 1, kMaxReportedLoads});
  std::vector<std::string> names;
  for (uint64_t step = 0; step < reports; ++step) {
    const bool says = random.Chance(says_percent);
    StepReport report = random.Chance(groups_percent) ? RandomReportOfGroups(random, step, says)
                                                      : RandomReport(random, step, says);
    if (step == 0 || random.Chance(1)) {
      names.clear();
      for (size_t i = random.Between(0, most_loads); i > 0; --i) names.push_back(std::to_string(i));
    }
    if (!names.empty()) report = WithLoads(random, std::move(report), names);
    AddReport(report, fit);
  }
  return fit;
}

}  // namespace batchplan::testing

#endif  // BATCHPLAN_TESTS_SERVER_FITTING_RANDOM_FIT_H_
