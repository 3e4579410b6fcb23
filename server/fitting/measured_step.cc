#include "server/fitting/measured_step.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <tuple>
#include <vector>

namespace batchplan {
namespace {

struct Timing {
  uint32_t mini_batch = 0;
  uint32_t slot = 0;
  uint32_t rank = 0;
  double milliseconds = 0;

  auto place() const { return std::tie(mini_batch, slot, rank); }
};

// Sorted by mini-batch, slot and rank. Empty if a place is unknown or only a part of the model is
// timed.
std::vector<Timing> Sorted(const StepReport& report) {
  std::vector<Timing> timings;
  timings.reserve(report.microbatches.size());
  for (const ReportedMicrobatch& microbatch : report.microbatches) {
    if (!microbatch.rank || !microbatch.slot || microbatch.model_share < 1) return {};
    timings.push_back({.mini_batch = microbatch.mini_batch,
                       .slot = *microbatch.slot,
                       .rank = *microbatch.rank,
                       .milliseconds = microbatch.milliseconds});
  }
  std::ranges::sort(timings, {}, &Timing::place);
  return timings;
}

// Whether the sorted timings consist of runs of `ranks`, each a slot of all ranks. Each run must be
// the next slot of its mini-batch, or the first slot of the next mini-batch.
bool IsWhole(const std::vector<Timing>& timings, uint32_t ranks) {
  if (timings.empty() || timings.size() % ranks != 0) return false;
  for (size_t i = 0; i < timings.size(); ++i) {
    const Timing& timing = timings[i];
    const Timing& first = timings[i - i % ranks];
    if (timing.rank != i % ranks || timing.mini_batch != first.mini_batch ||
        timing.slot != first.slot) {
      return false;
    }
    if (timing.rank != 0) continue;
    const bool begins =
        timing.slot == 0 && timing.mini_batch == (i == 0 ? 0 : timings[i - ranks].mini_batch + 1);
    const bool goes_on = i > 0 && timing.mini_batch == timings[i - ranks].mini_batch &&
                         timing.slot == timings[i - ranks].slot + 1;
    if (!begins && !goes_on) return false;
  }
  return true;
}

// `timings` must be whole.
double StepMilliseconds(const std::vector<Timing>& timings, uint32_t ranks, bool accumulated) {
  double step = 0;
  // The time of each rank since the ranks last waited for each other.
  std::vector<double> taken(ranks, 0);
  for (size_t i = 0; i < timings.size(); ++i) {
    taken[timings[i].rank] += timings[i].milliseconds;
    const bool last = i + 1 == timings.size();
    const bool meet = accumulated ? last || timings[i + 1].mini_batch != timings[i].mini_batch
                                  : timings[i].rank + 1 == ranks;
    if (!meet) continue;
    step += std::ranges::max(taken);
    std::ranges::fill(taken, 0);
  }
  return step;
}

}  // namespace

std::optional<MeasuredStep> MeasureStep(const StepReport& report) {
  const uint32_t ranks = report.data_parallel;
  if (ranks == 0) return std::nullopt;
  const std::vector<Timing> timings = Sorted(report);
  if (!IsWhole(timings, ranks)) return std::nullopt;
  MeasuredStep step = {.milliseconds = StepMilliseconds(timings, ranks, report.accumulated),
                       .predicted_milliseconds = report.predicted_milliseconds};
  double computed = 0;
  for (const Timing& timing : timings) computed += timing.milliseconds;
  // Rounding could make it slightly negative.
  step.waited_share = std::max(0.0, 1 - computed / (step.milliseconds * ranks));
  return step;
}

}  // namespace batchplan
