#include "server/explain/sentences.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"

namespace batchplan::explain {
namespace {

// Of the step: what is less is not worth a sentence.
constexpr double kLeastShare = 0.001;
// Of the step: by less a bound may miss the step time that it proves.
constexpr double kRounding = 1e-9;
constexpr size_t kMostCauses = 4;
constexpr size_t kMostLone = 3;

std::string Percent(double share) { return absl::StrFormat("%.1f%%", 100 * share); }

std::string WithThousands(uint64_t number) {
  const std::string digits = absl::StrCat(number);
  std::string text;
  for (size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % 3 == 0) text += ',';
    text += digits[i];
  }
  return text;
}

std::string Count(uint64_t number, absl::string_view one, absl::string_view several) {
  return absl::StrCat(WithThousands(number), " ", number == 1 ? one : several);
}

std::string Count(uint64_t number, absl::string_view noun) {
  return Count(number, noun, absl::StrCat(noun, "s"));
}

// "sequence 17 (16,384 tokens)".
std::string Sequence(uint32_t sequence, uint32_t length) {
  return absl::StrCat("sequence ", sequence, " (", Count(length, "token"), ")");
}

std::string RanksOf(const PlanOptions& options) {
  const Topology& topology = options.topology;
  const uint64_t shared = topology.dynamic_context ? topology.context_parallel : 1;
  return Count(topology.data_parallel * shared, "rank");
}

uint64_t SlotsOf(const PassPlan& plan) {
  uint64_t slots = 0;
  for (const uint32_t own : plan.microbatches_per_rank) slots += own;
  return slots;
}

uint32_t LengthOf(const PassPlan& plan, uint32_t sequence) {
  const auto found = std::ranges::find(plan.sequence_index, sequence);
  return found == plan.sequence_index.end()
             ? 0
             : plan.sequence_lengths[found - plan.sequence_index.begin()];
}

// "2 of 3 slots last as long as one sequence alone, which ranks wait 4.1% of the step for: sequence
// 17 (16,384 tokens), ...". Empty if they hardly wait, or if there is just one slot.
std::string LoneSequences(const Explanation& explanation, const PassPlan& plan) {
  const std::vector<LoneSequence>& lone = explanation.lone_sequences;
  double waiting = 0;
  for (const LoneSequence& one : lone) waiting += one.waiting;
  if (SlotsOf(plan) == 1 || waiting < kLeastShare * explanation.predicted_step_time) return "";
  std::vector<std::string> longest;
  for (const LoneSequence& one : lone) {
    if (longest.size() == kMostLone) break;
    longest.push_back(Sequence(one.sequence, one.length));
  }
  return absl::StrCat(WithThousands(lone.size()), " of ", Count(SlotsOf(plan), "slot"),
                      lone.size() == 1 ? " lasts" : " last",
                      " as long as one sequence alone, which ranks wait ",
                      Percent(waiting / explanation.predicted_step_time),
                      " of the step for: ", absl::StrJoin(longest, ", "),
                      lone.size() > longest.size() ? " and others." : ".");
}

// Of all mini-batches.
uint64_t FewestSlots(const Circumstances& own) {
  return own.plan.metrics.lower_bound_microbatches / own.options.topology.data_parallel;
}

std::string BudgetReason(const Explanation& explanation, const Circumstances& own) {
  if (own.options.topology.dynamic_context) {
    return absl::StrCat("a budget of ", WithThousands(own.pass.max_tokens_per_microbatch),
                        " tokens leaves groups no choice of what runs beside what");
  }
  const double twice = explanation.with_twice_the_budget / explanation.predicted_step_time;
  const bool lockstep = own.options.synchronization == Synchronization::kLockstep;
  const char* const accumulated = own.options.allow_empty_microbatches
                                      ? " a rank or more"
                                      : " a rank or more, none of them empty";
  return absl::StrCat(
      "a budget of ", Count(own.pass.max_tokens_per_microbatch, "token"), " makes ",
      lockstep ? absl::StrCat(Count(FewestSlots(own), "slot"),
                              " or more, each as long as its costliest micro-batch")
               : absl::StrCat(Count(FewestSlots(own), "micro-batch", "micro-batches"), accumulated),
      twice < kLeastShare
          ? "; with twice the budget it may be nothing"
          : absl::StrCat("; with twice the budget it is still ", Percent(twice), " or more"));
}

// "ranks have at least 3 micro-batches, in multiples of 2".
std::string CountsText(const PassOptions& pass) {
  std::vector<std::string> asked;
  if (pass.min_microbatches > 1) {
    asked.push_back(absl::StrCat("at least ", pass.min_microbatches, " micro-batches"));
  }
  if (pass.microbatch_count_multiple > 1) {
    asked.push_back(absl::StrCat(asked.empty() ? "micro-batches " : "", "in multiples of ",
                                 pass.microbatch_count_multiple));
  }
  return absl::StrJoin(asked, ", ");
}

// "no more than 4 of patches".
std::string LimitsText(const PassOptions& pass) {
  std::vector<std::string> limits;
  limits.reserve(pass.limits.size());
  for (const LoadLimit& limit : pass.limits) {
    limits.push_back(absl::StrFormat("%.6g of %s", limit.max_per_microbatch, limit.load));
  }
  return absl::StrCat("no more than ", absl::StrJoin(limits, " and "));
}

// "patches and frames".
std::string PhasesText(const PlanOptions& options) {
  std::vector<absl::string_view> names;
  for (const LoadCost& load : options.cost_model.loads) {
    if (load.has_phase()) names.push_back(load.load);
  }
  return absl::StrJoin(names, " and ");
}

// Why it is so, of the causes that bounds prove; or what it is.
std::string Reason(Cause cause, const Explanation& explanation, const Circumstances& own) {
  const PassPlan& plan = own.plan;
  const std::string ranks = RanksOf(own.options);
  switch (cause) {
    case Cause::kLongestSequence:
      return absl::StrCat(Sequence(own.longest, LengthOf(plan, own.longest)),
                          " takes longer by itself than an even share of all work");
    case Cause::kFewSequences:
      return absl::StrCat(Count(plan.sequence_index.size(), "sequence"),
                          " of these lengths can't be divided evenly among ", ranks);
    case Cause::kBudget:
      return BudgetReason(explanation, own);
    case Cause::kSequenceLimit:
      return absl::StrCat("micro-batches have no more than ",
                          Count(own.pass.max_sequences_per_microbatch, "sequence"));
    case Cause::kMicrobatchCounts:
      return absl::StrCat(
          "ranks have ", CountsText(own.pass), ", each with a ",
          own.options.mini_batches.groups == GroupPolicy::kSameMicrobatch ? "group" : "sequence");
    case Cause::kSequenceMultiple:
      return absl::StrCat("micro-batches have multiples of ", own.pass.sequence_count_multiple,
                          " sequences");
    case Cause::kEqualCounts:
      return absl::StrCat(
          "ranks have equally many sequences",
          own.pass.sequence_counts == EqualCounts::kWithinOne ? ", within one" : "");
    case Cause::kMiniBatches:
      return absl::StrCat("each of ", WithThousands(plan.microbatches_per_rank.size()),
                          " mini-batches is divided among the ranks by itself");
    case Cause::kGroups:
      return absl::StrCat("groups stay ",
                          own.options.mini_batches.groups == GroupPolicy::kSameMicrobatch
                              ? "in one micro-batch"
                              : "on one rank");
    case Cause::kGivenRanks:
      return "the request says on which rank each sequence is";
    case Cause::kKinds:
      return "sequences of different kinds run in different slots";
    case Cause::kLoadLimits:
      return absl::StrCat("micro-batches have ", LimitsText(own.pass));
    case Cause::kLoadPhases:
      return absl::StrCat("ranks wait for each other after the phase of ", PhasesText(own.options));
    case Cause::kStages:
      return "the stages of the pipeline are not equal";
    case Cause::kBubbles:
      return absl::StrCat("bubbles, in which stages wait while micro-batches pass through all ",
                          own.options.topology.pipeline_parallel, " stages");
    case Cause::kPadding:
      return own.pass.layout == Layout::kPadded
                 ? "padding of sequences to the width of their micro-batch"
                 : "padding of rows";
    case Cause::kExchange:
      return own.options.topology.dynamic_context
                 ? "what groups of context-parallel ranks cost beyond the smallest ones: exchange, "
                   "alignment and further micro-batches"
                 : "exchange of keys and values between context-parallel ranks";
    case Cause::kRepeatedPrefixes:
      return "prefixes that several micro-batches compute";
    case Cause::kMoreSlots:
      return "the fixed cost of micro-batches beyond the fewest";
    case Cause::kUnexplained:
      break;
  }
  return "";
}

std::string Headline(const Explanation& explanation) {
  const double predicted = explanation.predicted_step_time;
  const double share = predicted > 0 ? 1 - explanation.ideal_step_time / predicted : 0;
  if (share < kLeastShare) return "All ranks are busy from the step's beginning to its end.";
  return absl::StrCat(Percent(share),
                      " of the step is beyond what its work takes, evenly on all ranks.");
}

// What is not known, and how much of the step it may be.
std::string LastSentence(const Explanation& explanation, const Circumstances& own) {
  const double predicted = explanation.predicted_step_time;
  if (predicted <= 0) return "";
  const double gap = 1 - explanation.lower_bound_step_time / predicted;
  if (gap < kRounding) return "No plan for this request is shorter.";
  if (gap < kLeastShare) {
    return absl::StrCat("No plan for this request is shorter by ", Percent(kLeastShare),
                        " or more.");
  }
  const bool some = !explanation.causes.empty() &&
                    explanation.causes.back().cause == Cause::kUnexplained &&
                    explanation.causes.back().time >= kLeastShare * predicted;
  return absl::StrCat(
      some ? absl::StrCat(Percent(explanation.causes.back().time / predicted),
                          " has no proven cause: a")
           : "A",
      " better plan may exist, at most ", Percent(gap), " shorter",
      own.options.topology.pipeline_parallel > 1 ? "; the bound knows few of the bubbles." : ".");
}

}  // namespace

std::vector<std::string> SentencesOf(const Explanation& explanation, const Circumstances& own) {
  std::vector<std::string> sentences = {Headline(explanation)};
  const double predicted = explanation.predicted_step_time;
  for (const ExplainedTime& one : explanation.causes) {
    if (sentences.size() > kMostCauses) break;
    if (one.cause == Cause::kUnexplained || one.time < kLeastShare * predicted) continue;
    sentences.push_back(absl::StrCat(Percent(one.time / predicted),
                                     one.in_any_plan ? " in any plan, as " : " is ",
                                     Reason(one.cause, explanation, own), "."));
  }
  std::string lone = LoneSequences(explanation, own.plan);
  if (!lone.empty()) sentences.push_back(std::move(lone));
  if (explanation.aligning >= kLeastShare * predicted) {
    sentences.push_back(absl::StrCat(
        "Of the work itself ", Percent(explanation.aligning / predicted),
        " of the step is lengths rounded up to multiples of ", own.plan.length_multiple, "."));
  }
  if (explanation.required_microbatches >= kLeastShare * predicted) {
    sentences.push_back(
        absl::StrCat("Of the work itself ", Percent(explanation.required_microbatches / predicted),
                     " of the step is the fixed cost of further micro-batches, as ranks have ",
                     CountsText(own.pass), "."));
  }
  const std::string last = LastSentence(explanation, own);
  if (!last.empty()) sentences.push_back(last);
  return sentences;
}

}  // namespace batchplan::explain
