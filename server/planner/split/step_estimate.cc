#include "server/planner/split/step_estimate.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "absl/status/statusor.h"
#include "server/planner/pass/mini_batch_tree.h"
#include "server/planner/pass/placement.h"
#include "server/planner/ranks/bounds.h"
#include "server/planner/request/cost.h"
#include "server/planner/request/useful_sizes.h"

namespace batchplan {

std::optional<StepEstimate> StepEstimate::Create(
    const Manifest& manifest, const PlanOptions& options, const PassLimits& limits,
    const PlannedLengths& planned, const Groups& groups, const SharedPrefixes& prefixes,
    const Loads& loads, size_t mini_batches, const std::stop_token& stop) {
  StepEstimate estimate(options, groups, stop);
  Alignments alignments(planned.lengths);
  for (size_t i = 0; i < options.passes.size(); ++i) {
    if (stop.stop_requested()) return std::nullopt;
    std::vector<GroupLimits> sizes = options.topology.dynamic_context
                                         ? UsefulSizes(options, i, limits.sizes[i], planned)
                                         : limits.sizes[i];
    absl::StatusOr<Pass> pass =
        Pass::Create(manifest, options, i, std::move(sizes), planned, alignments, groups,
                     mini_batches, stop, prefixes, loads);
    if (!pass.ok()) return std::nullopt;
    estimate.passes_.push_back(*std::move(pass));
  }
  estimate.has_mean_times_ = std::ranges::all_of(estimate.passes_, HasMeanTime);
  return estimate;
}

StepEstimate::Time StepEstimate::Of(const Pass& pass,
                                    std::span<const SequenceIndex> mini_batch) const {
  Placement any;
  any.slots = static_cast<uint32_t>(pass.counts().RoundUp(mini_batch.size()));
  // If micro-batches have no fixed cost, their number does not matter.
  if (pass.cost().OfMicrobatch() == 0) any.proven.microbatches = 1;
  const MiniBatchBounds bounds = BoundsWithoutCounts(pass, mini_batch, any, unlimited_);
  const auto computation = static_cast<double>(UniqueOf(pass, mini_batch).computation);
  const double ideal = IdealStepTime(pass, computation, bounds.slots);
  return {.bound = std::max(ideal, pass.cost().ToUnits(bounds.step_time)), .ideal = ideal};
}

// Without fixed costs, on which the ideal time depends in another way.
bool StepEstimate::HasMeanTime(const Pass& pass) {
  const bool has_fixed = pass.cost().OfMicrobatch() != 0 || pass.computation().OfMicrobatch() != 0;
  return !has_fixed && !pass.sizes_differ() && pass.prefixes() == nullptr &&
         pass.pipeline() == nullptr && pass.options().layout == Layout::kPacked;
}

StepEstimate::Time StepEstimate::MeanOf(const Pass& pass,
                                        std::span<const SequenceIndex> mini_batch) {
  Cost work = 0;
  for (const SequenceIndex sequence : mini_batch) {
    work += pass.cost().OfSequence(pass.aligned()[sequence.value()]) +
            pass.loads().InMicrobatch(sequence);
  }
  const auto computation = static_cast<double>(UniqueOf(pass, mini_batch).computation);
  const double ideal = IdealStepTime(pass, computation, /*slots=*/1);
  const Cost mean = (work + pass.ranks() - 1) / pass.ranks();
  return {.bound = std::max(ideal, pass.cost().ToUnits(mean)), .ideal = ideal};
}

uint64_t StepEstimate::TicksOf(size_t sequences, size_t mini_batches) const {
  constexpr uint64_t kTicksASequence = 400;
  constexpr uint64_t kTicksAMiniBatch = 4000;
  return (kTicksASequence * sequences + kTicksAMiniBatch * mini_batches) * options_->passes.size();
}

double StepEstimate::TimeOf(std::span<const SequenceIndex> mini_batch) const {
  double bound = 0;
  for (size_t i = 0; i < options_->passes.size(); ++i) {
    if (options_->passes[i].ignore_mini_batches) continue;
    bound += Of(passes_[i], mini_batch).bound;
  }
  return bound;
}

double StepEstimate::Ratio(std::span<const SequenceIndex> sequences, const SequenceLists& cut,
                           const auto& time_of) const {
  Time all;
  for (size_t i = 0; i < options_->passes.size(); ++i) {
    const bool whole = options_->passes[i].ignore_mini_batches;
    for (size_t k = 0; k < (whole ? 1 : cut.size()); ++k) {
      const Time time = time_of(passes_[i], whole ? sequences : cut[k]);
      all.bound += time.bound;
      all.ideal += time.ideal;
    }
  }
  return all.ideal == 0 ? 1 : all.bound / all.ideal;
}

double StepEstimate::operator()(std::span<const SequenceIndex> sequences, double enough) const {
  const SequenceLists cut = MiniBatchesOf(sequences);
  if (has_mean_times_) {
    const double least = Ratio(sequences, cut, MeanOf);
    if (least >= enough) return least;
  }
  return Ratio(sequences, cut, [this](const Pass& pass, std::span<const SequenceIndex> mini_batch) {
    return Of(pass, mini_batch);
  });
}

SequenceLists StepEstimate::MiniBatchesOf(std::span<const SequenceIndex> sequences) const {
  const MiniBatching& options = options_->mini_batches;
  SequenceLists cut;
  if (options.group_count > 0) {
    const SequenceLists together = groups_->Together(sequences);
    for (size_t group = 0; group < together.size(); ++group) {
      cut.Push(together[group]);
      if ((group + 1) % options.group_count == 0 || group + 1 == together.size()) cut.Close();
    }
    return cut;
  }
  const size_t size = options.size == 0 ? sequences.size() : options.size;
  for (size_t first = 0; first < sequences.size(); first += size) {
    cut.Push(sequences.subspan(first, std::min(size, sequences.size() - first)));
    cut.Close();
  }
  return cut;
}

}  // namespace batchplan
