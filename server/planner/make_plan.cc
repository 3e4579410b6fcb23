#include "server/planner/make_plan.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/planner/align.h"
#include "server/planner/assign.h"
#include "server/planner/cost.h"
#include "server/planner/fingerprint.h"
#include "server/planner/measure.h"
#include "server/planner/order.h"
#include "server/planner/overlong.h"
#include "server/planner/packing/lower_bounds.h"
#include "server/planner/rows.h"
#include "server/planner/seeds.h"
#include "server/planner/split.h"

namespace batchplan {
namespace {

// Far above a 64 MiB message, and low enough that no sum of tokens overflows 64 bits.
constexpr size_t kMaxSequences = std::numeric_limits<int32_t>::max();

absl::Status CheckManifest(const Manifest& manifest) {
  if (manifest.lengths.empty()) {
    return absl::InvalidArgumentError("manifest.lengths is empty; at least one sequence is needed");
  }
  if (manifest.lengths.size() > kMaxSequences) {
    return absl::InvalidArgumentError(absl::StrCat("manifest.lengths has ", manifest.lengths.size(),
                                                   " sequences; the limit is ", kMaxSequences));
  }
  if (!manifest.group_ids.empty() && manifest.group_ids.size() != manifest.lengths.size()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "manifest.group_ids has ", manifest.group_ids.size(), " entries, but manifest.lengths has ",
        manifest.lengths.size(), "; give one a sequence, or none"));
  }
  return absl::OkStatus();
}

absl::Status CheckPadTo(const Manifest& manifest, const PlannedLengths& planned) {
  if (manifest.pad_to == 0) return absl::OkStatus();
  const auto longest = std::max_element(planned.lengths.begin(), planned.lengths.end());
  if (*longest <= manifest.pad_to) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("manifest.pad_to is ", manifest.pad_to, ", but sequence ",
                   longest - planned.lengths.begin(), " has ", *longest, " tokens"));
}

absl::Status CheckStop(const std::stop_token& stop) {
  return stop.stop_requested() ? absl::CancelledError("planning was cancelled") : absl::OkStatus();
}

// One pass over the whole manifest, on its way to a PassPlan.
class PassPlanner {
 public:
  PassPlanner(const Manifest& manifest, const PlanOptions& options, size_t pass, uint32_t multiple,
              const PlannedLengths& planned)
      : manifest_(manifest),
        options_(options),
        pass_(options.passes[pass]),
        where_(absl::StrCat("passes[", pass, "]")),
        multiple_(multiple),
        planned_(planned) {}

  absl::StatusOr<PassPlan> Run(const MiniBatches& mini_batches, const std::stop_token& stop) {
    if (absl::Status status = Prepare(); !status.ok()) return status;
    for (size_t k = 0; k < mini_batches.size(); ++k) {
      if (absl::Status status = CheckStop(stop); !status.ok()) return status;
      if (absl::Status status = PlanMiniBatch(k, mini_batches[k]); !status.ok()) return status;
    }
    if (absl::Status status = CheckStop(stop); !status.ok()) return status;
    plan_.metrics = Measure(manifest_, options_, pass_, plan_, aligned_, *cost_, bounds_);
    return std::move(plan_);
  }

 private:
  // What holds for all mini-batches: aligned lengths, costs, limits.
  absl::Status Prepare() {
    aligned_.reserve(planned_.lengths.size());
    for (uint32_t length : planned_.lengths) {
      aligned_.push_back(static_cast<uint32_t>(AlignUp(length, multiple_)));
    }
    const uint32_t longest = *std::max_element(aligned_.begin(), aligned_.end());
    if (absl::Status status = CheckBuckets(pass_, multiple_, longest, where_); !status.ok()) {
      return status;
    }
    const uint64_t tail = pass_.rows == RowPadding::kNone
                              ? 0
                              : uint64_t{pass_.max_tokens_per_microbatch} * aligned_.size();
    auto cost = CostFunction::Create(options_.cost_model, aligned_, aligned_.size(), tail);
    if (!cost.ok()) return cost.status();
    cost_ = *cost;

    rules_.ranks = options_.topology.data_parallel;
    rules_.limits.capacity = RowCapacity(pass_, multiple_);
    if (pass_.max_sequences_per_microbatch > 0) {
      rules_.limits.max_items = pass_.max_sequences_per_microbatch;
    }
    rules_.counts = CountRuleOf(options_.topology, pass_);

    plan_.name = pass_.name;
    plan_.length_multiple = multiple_;
    plan_.sequence_index.reserve(aligned_.size());
    plan_.sequence_lengths.reserve(aligned_.size());
    plan_.microbatch_offsets = {0};
    return absl::OkStatus();
  }

  absl::Status PlanMiniBatch(size_t k, std::span<const SequenceIndex> sequences) {
    std::vector<uint32_t> lengths;
    std::vector<Cost> costs;
    lengths.reserve(sequences.size());
    costs.reserve(sequences.size());
    for (SequenceIndex sequence : sequences) {
      lengths.push_back(aligned_[sequence.value()]);
      costs.push_back(cost_->OfSequence(lengths.back()));
    }
    std::vector<uint64_t> tokens;
    if (pass_.balance_on == BalanceOn::kTokens) tokens.assign(lengths.begin(), lengths.end());
    const Items items{.lengths = lengths,
                      .costs = costs,
                      .loads = pass_.balance_on == BalanceOn::kTokens ? tokens : costs};

    rules_.seed = MiniBatchSeed(options_.mini_batches.seed, k);
    absl::StatusOr<Assignment> assignment =
        Assign(items, pass_, rules_, absl::StrCat(where_, ": mini-batch ", k));
    if (!assignment.ok()) return assignment.status();
    OrderMicrobatches(pass_.order, items, *assignment);
    Append(sequences, items, *assignment);

    const uint64_t fewest = LowerBoundBins(lengths, rules_.limits);
    const uint64_t per_rank = rules_.counts.RoundUp((fewest + rules_.ranks - 1) / rules_.ranks);
    bounds_.push_back({.microbatches = per_rank * rules_.ranks,
                       .longest = *std::max_element(costs.begin(), costs.end())});
    return absl::OkStatus();
  }

  // Writes the mini-batch behind what the plan has.
  void Append(std::span<const SequenceIndex> sequences, const Items& items,
              const Assignment& assignment) {
    std::vector<uint32_t> rows;
    rows.reserve(assignment.bin_at.size());
    for (uint32_t bin : assignment.bin_at) {
      uint32_t row = 0;
      for (uint32_t item : assignment.bins[bin]) {
        const uint32_t sequence = sequences[item].value();
        plan_.sequence_index.push_back(sequence);
        plan_.sequence_lengths.push_back(planned_.lengths[sequence]);
        row += items.lengths[item];
      }
      plan_.microbatch_offsets.push_back(static_cast<uint32_t>(plan_.sequence_index.size()));
      rows.push_back(row);
    }
    PadRows(pass_, multiple_, rows);
    plan_.row_widths.insert(plan_.row_widths.end(), rows.begin(), rows.end());
    plan_.microbatches_per_rank.push_back(assignment.slots);
  }

  const Manifest& manifest_;
  const PlanOptions& options_;
  const PassOptions& pass_;
  const std::string where_;
  const uint32_t multiple_;
  const PlannedLengths& planned_;

  std::vector<uint32_t> aligned_;
  std::optional<CostFunction> cost_;
  AssignmentRules rules_;
  std::vector<MiniBatchBounds> bounds_;
  PassPlan plan_;
};

}  // namespace

absl::StatusOr<Plan> MakePlan(const Manifest& manifest, const PlanOptions& options,
                              const std::stop_token& stop) {
  if (absl::Status status = CheckManifest(manifest); !status.ok()) return status;
  if (absl::Status status = options.Validate(); !status.ok()) return status;

  std::vector<uint32_t> multiples;
  for (size_t i = 0; i < options.passes.size(); ++i) {
    const absl::StatusOr<uint32_t> multiple =
        LengthMultiple(options.topology, options.passes[i], absl::StrCat("passes[", i, "]"));
    if (!multiple.ok()) return multiple.status();
    multiples.push_back(*multiple);
  }
  absl::StatusOr<PlannedLengths> planned =
      ApplyOverlongPolicy(manifest, options, FindLengthLimit(options, multiples));
  if (!planned.ok()) return planned.status();
  if (absl::Status status = CheckPadTo(manifest, *planned); !status.ok()) return status;
  const absl::StatusOr<MiniBatches> mini_batches =
      SplitIntoMiniBatches(planned->lengths, options.mini_batches);
  if (!mini_batches.ok()) return mini_batches.status();

  Plan plan;
  for (size_t i = 0; i < options.passes.size(); ++i) {
    absl::StatusOr<PassPlan> pass =
        PassPlanner(manifest, options, i, multiples[i], *planned).Run(*mini_batches, stop);
    if (!pass.ok()) return pass.status();
    plan.passes.push_back(*std::move(pass));
  }
  plan.excluded = std::move(planned->excluded);
  plan.cost_model_used = options.cost_model;
  plan.fingerprint = Fingerprint(plan);
  return plan;
}

std::string_view PlannerVersion() { return BATCHPLAN_VERSION; }

}  // namespace batchplan
