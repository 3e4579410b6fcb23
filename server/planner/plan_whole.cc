#include "server/planner/plan_whole.h"

#include <algorithm>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/planner/efforts.h"
#include "server/planner/measure.h"
#include "server/planner/measure_loads.h"
#include "server/planner/pass/order.h"
#include "server/planner/pass/pass.h"
#include "server/planner/place/assign.h"
#include "server/planner/place/batch_passes.h"
#include "server/planner/place/place_slots.h"
#include "server/planner/plan.h"
#include "server/planner/ranks/bounds.h"
#include "server/planner/request/allowance.h"
#include "server/planner/request/cancellation.h"
#include "server/planner/request/count_multiples.h"
#include "server/planner/request/lengths.h"
#include "server/planner/request/loads.h"
#include "server/planner/request/useful_sizes.h"
#include "server/planner/split/delay.h"
#include "server/planner/split/mini_batches.h"
#include "server/planner/split/step_estimate.h"

namespace batchplan {
namespace {

// Appends a mini-batch's micro-batches to the plan.
void Append(const Pass& pass, const PlannedLengths& planned, const Placement& placement,
            PassPlan& plan) {
  for (size_t m = 0; m < placement.microbatches.size(); ++m) {
    for (SequenceIndex sequence : placement.microbatches[m]) {
      plan.sequence_index.push_back(sequence.value());
      plan.sequence_lengths.push_back(planned.lengths[sequence.value()]);
    }
    if (pass.prefixes() != nullptr) {
      const std::span<const SequenceIndex> row = placement.microbatches[m];
      for (size_t i = 0; i < row.size(); ++i) {
        plan.shared_tokens.push_back(i == 0 ? 0 : pass.prefixes()->Common(row[i - 1], row[i]));
      }
    }
    plan.microbatch_offsets.push_back(static_cast<uint32_t>(plan.sequence_index.size()));
  }
  plan.context_sizes.insert(plan.context_sizes.end(), placement.context_sizes.begin(),
                            placement.context_sizes.end());
  const std::vector<uint32_t> rows = pass.RowWidths(placement.widths, placement.context_sizes);
  plan.row_widths.insert(plan.row_widths.end(), rows.begin(), rows.end());
  plan.microbatches_per_rank.push_back(placement.slots);
  if (plan.decisions.size() == kMostDecisions) return;
  MiniBatchDecision& decision = plan.decisions.emplace_back();
  decision.method = std::string(placement.method);
  if (placement.method == kFixedSizeMethod) {
    absl::StrAppend(&decision.method, placement.context_sizes.front());
  }
  decision.tried = placement.tried;
}

// Makes plans of placements, mini-batch by mini-batch: their order (stage 4), and bounds.
class PassPlans : public PlacementSink {
 public:
  PassPlans(std::span<const Pass> passes, const PlannedLengths& planned,
            const SequenceLists& mini_batches, const Allowance& allowance)
      : passes_(passes), planned_(planned), mini_batches_(mini_batches), allowance_(allowance) {
    Clear();
  }

  void Add(size_t pass, size_t mini_batch, Placement placement) override {
    const Pass& instance = passes_[pass];
    const std::span<const SequenceIndex> sequences =
        instance.options().ignore_mini_batches ? mini_batches_.all() : mini_batches_[mini_batch];
    bounds_[pass].push_back(BoundsOf(instance, sequences, placement, allowance_));
    if (allowance_.stop_requested()) return;
    // The items of a slot are dealt together.
    if (instance.loads().deals_within_limits()) placement.whole_slots = true;
    // Groups are already in the order in which they run.
    if (!instance.sizes_differ()) {
      OrderMicrobatches(instance, instance.order(), placement, allowance_);
    }
    Append(instance, planned_, placement, plans_[pass]);
  }

  void Clear() override {
    plans_.assign(passes_.size(), {});
    bounds_.assign(passes_.size(), {});
    for (size_t i = 0; i < passes_.size(); ++i) {
      plans_[i].name = passes_[i].options().name;
      plans_[i].length_multiple =
          passes_[i].sizes_differ()
              ? LengthMultipleOfOne(passes_[i].topology(), passes_[i].options())
              : passes_[i].length_multiple();
      plans_[i].sequence_index.reserve(mini_batches_.all().size());
      plans_[i].sequence_lengths.reserve(mini_batches_.all().size());
      plans_[i].microbatch_offsets = {0};
    }
  }

  PassPlan& operator[](size_t pass) { return plans_[pass]; }
  std::span<const MiniBatchBounds> bounds(size_t pass) const { return bounds_[pass]; }

 private:
  const std::span<const Pass> passes_;
  const PlannedLengths& planned_;
  const SequenceLists& mini_batches_;
  const Allowance& allowance_;
  std::vector<PassPlan> plans_;
  std::vector<std::vector<MiniBatchBounds>> bounds_;
};

// The batch of a request, for all passes.
struct Batch {
  const Manifest& manifest;
  const PlanOptions& options;
  const PlannedLengths& planned;
  Alignments& alignments;
  const Groups& groups;
  const SharedPrefixes& prefixes;
  const Loads& loads;
  const SequenceLists& mini_batches;
  // Of all efforts, if any.
  BatchFindings* findings = nullptr;
};

// What is kept for other efforts is at most some 20 MiB: nothing of larger batches.
constexpr size_t kMostToKeep = uint64_t{1} << 18;
constexpr size_t kMostMiniBatchesToKeep = 1024;

// The findings of each mini-batch; empty if there are none.
std::span<LockstepFindings> FindingsOf(size_t mini_batches, BatchFindings* findings) {
  if (findings == nullptr || mini_batches > kMostMiniBatchesToKeep) return {};
  findings->resize(mini_batches);
  return *findings;
}

// Stages 3 to 5 on groups of these sizes, by pass.
absl::StatusOr<std::vector<PassPlan>> PlanOnSizes(const Batch& batch,
                                                  std::span<const std::vector<GroupLimits>> sizes,
                                                  const Allowance& allowance) {
  const PlanOptions& options = batch.options;
  std::vector<Pass> passes;
  for (size_t i = 0; i < options.passes.size(); ++i) {
    if (absl::Status status = CheckStop(allowance); !status.ok()) return status;
    absl::StatusOr<Pass> pass = Pass::Create(
        batch.manifest, options, i, sizes[i], batch.planned, batch.alignments, batch.groups,
        batch.mini_batches.size(), allowance, batch.prefixes, batch.loads);
    if (!pass.ok()) return pass.status();
    passes.push_back(*std::move(pass));
  }
  PassPlans plans(passes, batch.planned, batch.mini_batches, allowance);
  const BatchPasses batch_passes(passes, batch.mini_batches);
  const uint64_t seed = options.mini_batches.seed;
  absl::Status placed = options.topology.dynamic_context
                            ? PlaceSlots(batch_passes, seed, allowance, plans)
                            : AssignAll(batch_passes, seed, allowance, plans,
                                        FindingsOf(batch_passes.mini_batches(), batch.findings));
  if (!placed.ok()) return placed;
  std::vector<PassPlan> measured;
  for (size_t i = 0; i < passes.size(); ++i) {
    if (absl::Status status = CheckStop(allowance); !status.ok()) return status;
    Measure(batch.manifest, passes[i], plans.bounds(i), allowance, plans[i]);
    plans[i].item_ranks = ItemRanksOf(passes[i], plans[i]);
    // It is kept while other plans are made.
    for (auto* const grown : {&plans[i].microbatch_offsets, &plans[i].context_sizes,
                              &plans[i].row_widths, &plans[i].shared_tokens}) {
      grown->shrink_to_fit();
    }
    measured.push_back(std::move(plans[i]));
  }
  return measured;
}

// Plans without the sizes that exchange too much to be of use. If that is refused, because a group
// would stay empty or no size holds sequences that belong together, plans with all sizes.
absl::StatusOr<std::vector<PassPlan>> PlanMiniBatches(const Batch& batch, const PassLimits& limits,
                                                      const Allowance& allowance) {
  if (!batch.options.topology.dynamic_context) return PlanOnSizes(batch, limits.sizes, allowance);
  std::vector<std::vector<GroupLimits>> useful;
  useful.reserve(limits.sizes.size());
  bool all = true;
  for (size_t i = 0; i < limits.sizes.size(); ++i) {
    useful.push_back(UsefulSizes(batch.options, i, limits.sizes[i], batch.planned));
    all = all && useful.back().size() == limits.sizes[i].size();
  }
  absl::StatusOr<std::vector<PassPlan>> plans = PlanOnSizes(batch, useful, allowance);
  if (all || !absl::IsInvalidArgument(plans.status())) return plans;
  return PlanOnSizes(batch, limits.sizes, allowance);
}

double PredictedStepTime(std::span<const PassPlan> passes) {
  double predicted = 0;
  for (const PassPlan& pass : passes) predicted += pass.metrics.predicted_step_time;
  return predicted;
}

// Writes the metrics of delay: which sequences are in another mini-batch than their own.
void MeasureDelay(const PlanOptions& options, const SequenceLists& places,
                  const SequenceLists& trained, std::vector<PassPlan>& passes) {
  std::vector<std::pair<SequenceIndex, size_t>> of[2];
  const SequenceLists* const lists[] = {&places, &trained};
  for (size_t k = 0; k < 2; ++k) {
    for (size_t m = 0; m < lists[k]->size(); ++m) {
      for (const SequenceIndex sequence : (*lists[k])[m]) of[k].emplace_back(sequence, m);
    }
    std::ranges::sort(of[k]);
  }
  uint64_t delay = 0;
  uint64_t moved = 0;
  for (size_t i = 0; i < of[0].size(); ++i) {
    const size_t place = of[0][i].second;
    const size_t own = of[1][i].second;
    delay += own > place ? own - place : 0;
    moved += own != place ? 1 : 0;
  }
  const auto count = static_cast<double>(of[0].size());
  for (size_t i = 0; i < passes.size(); ++i) {
    if (options.passes[i].ignore_mini_batches) continue;
    passes[i].metrics.mean_delay = static_cast<double>(delay) / count;
    passes[i].metrics.moved_share = static_cast<double>(moved) / count;
  }
}

// Counted groups may change places with groups of other sizes, unless each mini-batch must divide
// among the ranks, or into micro-batches of a multiple.
DelayTerms DelayTermsOf(const PlanOptions& options) {
  return {.max_delay = options.mini_batches.max_delay,
          .any_size = options.mini_batches.group_count > 0 && RankMultipleOf(options) == 1 &&
                      options.passes.front().sequence_counts != EqualCounts::kExact};
}

// Plans the mini-batches as they are, and with sequences moved as far as the options allow. Returns
// the plan of the shorter step.
absl::StatusOr<std::vector<PassPlan>> PlanDelayed(const Batch& batch, const PassLimits& limits,
                                                  const Allowance& allowance) {
  // Both plans may spend equally much.
  const uint64_t each = std::min(allowance.left() / 3 * 2, AllowanceOf(Effort::kThorough) / 2);
  const Allowance first(each, allowance.stop(), kReserve / 2);
  const Allowance as_much(each, allowance.stop(), kReserve / 2);
  absl::StatusOr<std::vector<PassPlan>> passes = PlanMiniBatches(batch, limits, first);
  allowance.Spend(first.used());
  allowance.SpendOnTop(GreedyTicks(batch.planned.lengths.size(), batch.options.passes.size()));
  const std::optional<StepEstimate> estimate = StepEstimate::Create(
      batch.manifest, batch.options, limits, batch.planned, batch.groups, batch.prefixes,
      batch.loads, batch.mini_batches.size(), allowance.stop());
  if (!estimate) return passes;
  const SequenceLists moved = [&] {
    const Allowance::Part part(as_much, 2);
    return DelayLong(
        batch.mini_batches, batch.groups, batch.planned.lengths, DelayTermsOf(batch.options),
        [&](std::span<const SequenceIndex> list) {
          as_much.Spend(estimate->TicksOf(list.size(), 1));
          return as_much.stop_requested() ? 0 : estimate->TimeOf(list);
        },
        as_much);
  }();
  const Batch delayed = {.manifest = batch.manifest,
                         .options = batch.options,
                         .planned = batch.planned,
                         .alignments = batch.alignments,
                         .groups = batch.groups,
                         .prefixes = batch.prefixes,
                         .loads = batch.loads,
                         .mini_batches = moved};
  absl::StatusOr<std::vector<PassPlan>> others = PlanMiniBatches(delayed, limits, as_much);
  allowance.Spend(as_much.used());
  if (!others.ok() || (passes.ok() && PredictedStepTime(*others) >= PredictedStepTime(*passes))) {
    return passes;
  }
  MeasureDelay(batch.options, batch.mini_batches, moved, *others);
  return others;
}

// A plan of more sequences that is this close to its bound is not planned again with more effort.
constexpr uint64_t kManySequences = 65536;

// How close is close enough: where the searches of DEFAULT end.
double GoodEnough(Synchronization synchronization) {
  return synchronization == Synchronization::kLockstep ? 1e-4 : 1e-5;
}

// Whether loads, kinds or multiples of sequences need searches for rows, which PlaceBalanced does
// not do.
bool HasSearchedRows(const PlanOptions& options) {
  return std::ranges::any_of(options.cost_model.loads, &LoadCost::has_phase) ||
         std::ranges::any_of(options.passes, [](const PassOptions& pass) {
           return !pass.limits.empty() || pass.kinds_per_slot != KindsPerSlot::kAny ||
                  pass.sequence_count_multiple > 1;
         });
}

// The number of the leading pass: the first that keeps to mini-batches, or the first.
size_t LeadOf(const PlanOptions& options) {
  const auto lead = std::ranges::find(
      options.passes, false, [](const PassOptions& pass) { return pass.ignore_mini_batches; });
  return lead == options.passes.end() ? 0 : lead - options.passes.begin();
}

// Whether every pass is made by a method that does the same at any effort.
bool NeverSearches(const Manifest& manifest, const PlanOptions& options) {
  if (options.topology.pipeline_parallel > 1 || options.topology.dynamic_context ||
      !manifest.shared_prefixes.empty() || options.mini_batches.max_delay > 0 ||
      HasSearchedRows(options)) {
    return false;
  }
  // The first pass says how all get their ranks.
  const Sharding sharding = options.passes.front().sharding;
  if (sharding == Sharding::kBalanced) return false;
  // Trees have no padded rows: if such a pass leads, it is planned as balanced.
  const PassOptions& lead = options.passes[LeadOf(options)];
  if (IsOfTrees(sharding) && lead.layout == Layout::kPadded) return false;
  return std::ranges::none_of(options.passes, [](const PassOptions& pass) {
    return pass.layout == Layout::kPacked && pass.packer == Packer::kBalanced;
  });
}

// Where groups differ in size, one plan of more sequences takes half a second, and efforts hardly
// differ.
constexpr uint64_t kManyInGroups = uint64_t{1} << 19;

// Whether one plan takes half a second or more.
bool IsSlow(const Manifest& manifest, const PlanOptions& options) {
  const uint64_t sequences = manifest.lengths.size();
  return GreedyTicks(sequences, options.passes.size()) > kGreedyOnTop ||
         (options.topology.dynamic_context && sequences > kManyInGroups) ||
         (!manifest.shared_prefixes.empty() && sequences > kManySequences);
}

// The lowest effort that is planned.
Effort FirstEffort(const Manifest& manifest, const PlanOptions& options) {
  const bool is_one = IsSlow(manifest, options) || NeverSearches(manifest, options);
  return is_one ? options.effort : Effort::kFast;
}

// How plans of one request compare: by the predicted step time of the leading pass, then of all
// passes; with max_delay, of all passes.
std::pair<double, double> TimesOf(const PlanOptions& options, const Plan& plan) {
  const double all = PredictedStepTime(plan.passes);
  if (options.mini_batches.max_delay > 0) return {all, all};
  return {plan.passes[LeadOf(options)].metrics.predicted_step_time, all};
}

// Notes what another effort tried for the leading pass. Other passes depend on the lead's ranks.
void NoteOtherSlots(const PlanOptions& options, const Plan& other, Plan& plan) {
  // With max_delay the mini-batches differ too.
  if (options.mini_batches.max_delay > 0) return;
  const size_t lead = LeadOf(options);
  const PassPlan& from = other.passes[lead];
  PassPlan& to = plan.passes[lead];
  for (size_t k = 0; k < to.decisions.size(); ++k) {
    NoteOtherSlots(from.decisions[k].tried, to.microbatches_per_rank[k], to.decisions[k].tried);
  }
}

// Keeps the better of the two plans in `best`, the later of equal ones, with the notes of both.
void KeepBetter(const PlanOptions& options, Plan plan, Plan& best) {
  if (TimesOf(options, best) >= TimesOf(options, plan)) std::swap(plan, best);
  NoteOtherSlots(options, plan, best);
}

// Whether more effort could gain too little to plan so many sequences again.
bool IsGoodEnough(const Manifest& manifest, const PlanOptions& options, const Plan& plan) {
  if (manifest.lengths.size() <= kManySequences) return false;
  double bound = 0;
  for (const PassPlan& pass : plan.passes) bound += pass.metrics.lower_bound_step_time;
  return PredictedStepTime(plan.passes) <= bound * (1 + GoodEnough(options.synchronization));
}

}  // namespace

absl::StatusOr<Plan> PlanWhole(const Manifest& manifest, const PlanOptions& options,
                               const PassLimits& limits, const Allowance& request) {
  absl::StatusOr<Plan> best = absl::UnknownError("not planned");
  const Effort first = FirstEffort(manifest, options);
  BatchFindings findings;
  const bool keeps = first < options.effort && manifest.lengths.size() <= kMostToKeep;
  const auto plan = [&](Effort effort, const Allowance& allowance) {
    // The effort must not decide whether rows within limits are found.
    if (effort > options.effort && (best.ok() || !HasSearchedRows(options))) return false;
    if (best.ok() && IsGoodEnough(manifest, options, *best)) return false;
    PlanOptions own = options;
    own.effort = effort;
    absl::StatusOr<Plan> next =
        PlanAtEffort(manifest, own, limits, allowance, keeps ? &findings : nullptr);
    if (!next.ok() && !absl::IsInvalidArgument(next.status())) {
      best = std::move(next);
      return false;
    }
    if (best.ok() && next.ok()) {
      KeepBetter(options, *std::move(next), *best);
    } else if (!best.ok()) {
      best = std::move(next);
    }
    return true;
  };
  const uint64_t greedy = GreedyTicks(manifest.lengths.size(), options.passes.size());
  ForEachEffort(first, options.effort, greedy, request, plan);
  return best;
}

absl::StatusOr<Plan> PlanAtEffort(const Manifest& manifest, const PlanOptions& options,
                                  const PassLimits& limits, const Allowance& allowance,
                                  BatchFindings* findings) {
  allowance.SpendOnTop(GreedyTicks(manifest.lengths.size(), options.passes.size()));
  const Groups groups(manifest, options.mini_batches.policy());
  const Loads loads(manifest);
  absl::StatusOr<PlannedLengths> planned = ApplyOverlongPolicy(
      manifest, options, groups, loads, limits.longest, [](SequenceIndex) { return false; });
  if (!planned.ok()) return planned.status();
  if (absl::Status status = CheckPadTo(manifest, *planned); !status.ok()) return status;
  if (absl::Status status = CheckStop(allowance); !status.ok()) return status;

  const absl::StatusOr<SequenceLists> mini_batches =
      SplitIntoMiniBatches(manifest, planned->lengths, groups, options.mini_batches);
  if (!mini_batches.ok()) return mini_batches.status();

  Alignments alignments(planned->lengths);
  // What sequences share is cut where they are.
  const SharedPrefixes prefixes(manifest, options.overlong == OverlongPolicy::kTruncate
                                              ? limits.longest.length
                                              : std::numeric_limits<uint32_t>::max());
  const Batch batch = {.manifest = manifest,
                       .options = options,
                       .planned = *planned,
                       .alignments = alignments,
                       .groups = groups,
                       .prefixes = prefixes,
                       .loads = loads,
                       .mini_batches = *mini_batches,
                       .findings = findings};
  // Not if the greedy work of one plan is long already.
  const bool delays =
      options.mini_batches.max_delay > 0 && mini_batches->size() > 1 &&
      GreedyTicks(mini_batches->all().size(), options.passes.size()) <= kGreedyOnTop;
  absl::StatusOr<std::vector<PassPlan>> passes =
      delays ? PlanDelayed(batch, limits, allowance) : PlanMiniBatches(batch, limits, allowance);
  if (!passes.ok()) return passes.status();
  if (absl::Status status = CheckStop(allowance); !status.ok()) return status;
  Plan plan;
  plan.passes = *std::move(passes);
  plan.excluded = std::move(planned->excluded);
  plan.cost_model_used = options.cost_model;
  return plan;
}

}  // namespace batchplan
