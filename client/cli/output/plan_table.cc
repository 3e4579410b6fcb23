#include "client/cli/output/plan_table.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "client/cli/output/load_costs.h"
#include "client/cli/output/microbatches.h"
#include "client/cli/output/request_summary.h"
#include "client/cli/output/table.h"

namespace batchplan::cli {
namespace {

double ToMilliseconds(const google::protobuf::Duration& duration) {
  return static_cast<double>(duration.seconds()) * 1e3 +
         static_cast<double>(duration.nanos()) / 1e6;
}

// If groups differ in size, only the number of slots has a proven bound.
std::string MicrobatchesLine(const v1::PlanMetrics& metrics, bool groups) {
  std::string line = WithThousands(metrics.microbatches());
  if (groups) return absl::StrCat(line, ", one a group");
  if (metrics.certified_optimal()) return absl::StrCat(line, " (the fewest possible)");
  return absl::StrCat(line, " (at least ", WithThousands(metrics.lower_bound_microbatches()),
                      " needed)");
}

// Adds the request, and who planned it.
void AddHeader(const v1::PlanBatchRequest& request, const v1::PlanBatchResponse& response,
               const PlanOrigin& origin, Table* table) {
  if (!request.job_id().empty()) {
    table->AddRow(
        {"job", absl::StrCat(absl::CEscape(request.job_id()), ", step ", request.step())});
  }
  table->AddRow({"batch", BatchLine(request.manifest())});
  table->AddRow({"job size", TopologyLine(request.topology())});
  // Groups that differ in size depend on the exchange, so that "none" is said too.
  if (request.topology().has_dynamic_context() ||
      (request.topology().context_parallel() > 1 &&
       response.cost_model_used().exchange_size() > 0)) {
    table->AddRow({"exchange", ExchangeLine(response.cost_model_used())});
  }
  table->AddRow({"preset", PresetLine(request)});
  table->AddRow({"planned", absl::StrCat(origin.where, " in ",
                                         Milliseconds(ToMilliseconds(response.planning_time())),
                                         ", batchplan ", absl::CEscape(response.planner_version()),
                                         origin.verified ? ", verified" : "")});
  table->AddRow({"fingerprint", absl::CEscape(response.fingerprint())});
}

void AddExcluded(const v1::PlanBatchResponse& response, Table* table) {
  const struct {
    v1::ExclusionReason reason;
    const char* title;
  } reasons[] = {{v1::EXCLUSION_REASON_TRUNCATED, "truncated"},
                 {v1::EXCLUSION_REASON_DROPPED, "dropped"},
                 {v1::EXCLUSION_REASON_EXPIRED, "expired"},
                 {v1::EXCLUSION_REASON_ALONE, "alone"}};
  for (const auto& [reason, title] : reasons) {
    uint64_t count = 0;
    uint64_t tokens = 0;
    for (const v1::ExcludedSequence& sequence : response.excluded()) {
      if (sequence.reason() != reason) continue;
      ++count;
      tokens += sequence.length();
    }
    if (count == 0) continue;
    table->AddRow(
        {title, absl::StrCat(Count(count, "sequence"), " of together ", Count(tokens, "token"))});
  }
}

std::string SequencesLine(int count, double mean_length) {
  std::string sequences = Count(static_cast<uint64_t>(count), "sequence");
  if (count == 0) return sequences;
  return absl::StrCat(sequences, " of ",
                      Count(static_cast<uint64_t>(std::llround(mean_length)), "token"),
                      " on average");
}

// Adds the deferred sequences, and how they compare with the ones that are trained.
void AddSelection(const v1::PlanBatchRequest& request, const v1::PlanBatchResponse& response,
                  Table* table) {
  if (response.passes().empty()) return;
  const v1::PlanMetrics& metrics = response.passes(0).metrics();
  if (request.has_selection()) {
    table->AddRow({"taken", SequencesLine(response.passes(0).sequence_index_size(),
                                          metrics.mean_length_taken())});
    table->AddRow(
        {"deferred", SequencesLine(response.deferred_size(), metrics.mean_length_deferred())});
  }
  if (request.mini_batches().max_delay() > 0) {
    table->AddRow({"delayed", absl::StrFormat("%.1f %% in another mini-batch, by %.2f on average",
                                              100 * metrics.moved_share(), metrics.mean_delay())});
  }
  if (metrics.mean_age() > 0 || request.selection().max_age() > 0) {
    table->AddRow({"age", absl::StrFormat("%.2f on average, at most %d", metrics.mean_age(),
                                          metrics.largest_age())});
  }
}

// The number of groups of each size, the largest size first; empty if all groups are alike.
std::string GroupsLine(const v1::PassPlan& plan) {
  std::map<uint32_t, uint64_t, std::greater<>> groups;
  for (const uint32_t size : plan.context_sizes()) ++groups[size];
  std::vector<std::string> parts;
  parts.reserve(groups.size());
  for (const auto& [size, count] : groups) {
    parts.push_back(absl::StrCat(WithThousands(count), " of ", Count(size, "rank")));
  }
  return absl::StrJoin(parts, ", ");
}

// Adds how long the stages of a pipeline wait, and how many tokens they keep.
void AddPipeline(const PlanOptions& options, const PassOptions& pass, const v1::PassPlan& plan,
                 const std::vector<Microbatch>& microbatches, Table* table) {
  if (options.topology.pipeline_parallel == 1) return;
  table->AddRow(
      {"pipeline bubble", absl::StrCat(Percent(plan.metrics().pipeline_bubble()), " of the ",
                                       options.synchronization == Synchronization::kLockstep
                                           ? "time of the slots' costliest micro-batches"
                                           : "slowest rank's time",
                                       ", in which the busiest stage waits")});
  table->AddRow(
      {"tokens in flight",
       absl::StrCat("at most ",
                    WithThousands(MostTokensInFlight(microbatches, plan, options, pass)),
                    pass.forward_only ? ", one micro-batch a stage" : ", on the first stage",
                    options.topology.context_parallel > 1 || options.topology.dynamic_context
                        ? ", of each context-parallel rank"
                        : "")});
}

// The tokens that a micro-batch may hold; if groups differ in size, also their alignment.
std::string BudgetRow(const Topology& topology, const PassOptions& pass, const v1::PassPlan& plan) {
  const bool is_pool = topology.dynamic_context.has_value();
  std::string row = absl::StrCat(
      BudgetLine(pass.max_tokens_per_microbatch, is_pool ? topology.context_parallel : 0),
      ", lengths in multiples of ", plan.length_multiple());
  if (!is_pool) return row;
  const uint32_t tensor = topology.sequence_parallel ? topology.tensor_parallel : 1;
  return absl::StrCat(row, ", in groups of c ranks also of ", 2 * tensor, " c");
}

// The predicted step time with the nearest smaller and larger number of slots that the planner
// tried: "; 5 would take 1.2% longer".
std::string OtherSlots(const v1::MiniBatchDecision& decision, uint32_t own) {
  const v1::SlotsTried* fewer = nullptr;
  const v1::SlotsTried* more = nullptr;
  double time = 0;
  for (const v1::SlotsTried& tried : decision.tried()) {
    if (tried.slots() < own) fewer = &tried;
    if (tried.slots() == own) time = tried.step_time();
    if (tried.slots() > own && more == nullptr) more = &tried;
  }
  std::string text;
  for (const v1::SlotsTried* other : {fewer, more}) {
    if (other == nullptr || time <= 0) continue;
    const double longer = other->step_time() / time - 1;
    const double percent = 100 * std::abs(longer);
    const std::string share =
        percent < 99.5 ? absl::StrFormat("%.2g%%", percent) : absl::StrFormat("%.0f%%", percent);
    absl::StrAppend(
        &text, "; ", WithThousands(other->slots()), " would take ",
        longer == 0 ? "as long" : absl::StrCat(share, longer > 0 ? " longer" : " less"));
  }
  return text;
}

// "2 to 4 a rank, the fewest possible in 3 of 4 mini-batches; by balanced in 3, verl in 1".
std::string SlotsOfMiniBatches(const v1::PassPlan& plan, absl::string_view a_rank) {
  const int count = std::min(plan.decisions_size(), plan.microbatches_per_rank_size());
  const auto [least, most] =
      std::minmax_element(plan.microbatches_per_rank().begin(), plan.microbatches_per_rank().end());
  uint64_t fewest = 0;
  std::map<std::string, uint64_t> methods;
  for (int k = 0; k < count; ++k) {
    fewest += plan.microbatches_per_rank(k) == plan.decisions(k).fewest_slots() ? 1 : 0;
    ++methods[absl::CEscape(plan.decisions(k).method())];
  }
  std::string text = WithThousands(*least);
  if (*most > *least) absl::StrAppend(&text, " to ", WithThousands(*most));
  absl::StrAppend(&text, a_rank, ", the fewest possible in ", WithThousands(fewest), " of ",
                  WithThousands(static_cast<uint64_t>(count)), " mini-batches");
  if (methods.size() == 1) return absl::StrCat(text, "; by ", methods.begin()->first);
  std::vector<std::string> parts;
  parts.reserve(methods.size());
  for (const auto& [method, times] : methods) {
    parts.push_back(absl::StrCat(method, " in ", WithThousands(times)));
  }
  return absl::StrCat(text, "; by ", absl::StrJoin(parts, ", "));
}

// Adds the number of slots, the method that found it, and the step times of other numbers. Plans of
// older servers lack these.
void AddSlots(const v1::PassPlan& plan, Table* table) {
  if (plan.decisions().empty() || plan.microbatches_per_rank().empty()) return;
  const absl::string_view a_rank = plan.context_sizes_size() > 0 ? "" : " a rank";
  if (plan.microbatches_per_rank_size() > 1) {
    table->AddRow({"slots", SlotsOfMiniBatches(plan, a_rank)});
    return;
  }
  const v1::MiniBatchDecision& decision = plan.decisions(0);
  const uint32_t own = plan.microbatches_per_rank(0);
  table->AddRow(
      {"slots", absl::StrCat(WithThousands(own), a_rank, " by ", absl::CEscape(decision.method()),
                             own == decision.fewest_slots()
                                 ? ", the fewest possible"
                                 : absl::StrCat(", at least ",
                                                WithThousands(decision.fewest_slots()), " needed"),
                             OtherSlots(decision, own))});
}

// The share of true tokens that rows save by sharing, and what they would save if every mini-batch
// were one row.
std::string SharedLine(const v1::PlanMetrics& metrics) {
  const auto part = [&](uint64_t laid) {
    const auto all = static_cast<double>(std::max<uint64_t>(1, metrics.true_tokens()));
    return Percent(1 - static_cast<double>(laid) / all);
  };
  return absl::StrCat(part(metrics.laid_tokens()), " of the true tokens, at most ",
                      part(metrics.unique_tokens()), " in any plan");
}

// Adds a row for each load: "largest 8,192 of at most 8,192, mean 5,120 a micro-batch, ...".
void AddLoads(const PassOptions& options, const v1::PlanMetrics& metrics, Table* table) {
  for (const v1::LoadMetrics& load : metrics.loads()) {
    const auto limit = std::ranges::find(options.limits, load.load(), &LoadLimit::load);
    std::string row = absl::StrFormat("largest %.6g", load.largest());
    if (limit != options.limits.end()) {
      absl::StrAppendFormat(&row, " of at most %.6g", limit->max_per_microbatch);
    }
    absl::StrAppendFormat(&row, ", mean %.6g a micro-batch, rank imbalance %.3f", load.mean(),
                          load.rank_imbalance());
    if (load.separate_time() > 0) {
      absl::StrAppendFormat(&row, ", its phase %.6g of the step time", load.separate_time());
    }
    table->AddRow({absl::StrCat("load ", absl::CEscape(load.load())), row});
  }
}

void AddMetrics(const PlanOptions& plan_options, const PassOptions& options,
                const v1::PassPlan& plan, const std::vector<Microbatch>& microbatches,
                Table* table) {
  const v1::PlanMetrics& metrics = plan.metrics();
  table->AddRow({"budget", BudgetRow(plan_options.topology, options, plan)});
  table->AddRow({"micro-batches", MicrobatchesLine(metrics, plan.context_sizes_size() > 0)});
  AddSlots(plan, table);
  if (plan.context_sizes_size() > 0) {
    uint64_t slots = 0;
    for (const uint32_t own : plan.microbatches_per_rank()) slots += own;
    table->AddRow({"groups", absl::StrCat(GroupsLine(plan), ", in ", Count(slots, "slot"))});
  }
  if (plan.microbatches_per_rank_size() > 1) {
    table->AddRow({"mini-batches", WithThousands(plan.microbatches_per_rank_size())});
  }
  const bool shares = plan.shared_tokens_size() > 0;
  table->AddRow({"tokens", absl::StrCat(WithThousands(metrics.true_tokens()), " true, ",
                                        WithThousands(metrics.aligned_tokens()),
                                        shares ? " laid, " : " aligned, ",
                                        WithThousands(metrics.scheduled_tokens()), " scheduled")});
  if (shares) table->AddRow({"shared", SharedLine(metrics)});
  table->AddRow({"padding removed", absl::StrCat(Percent(metrics.padding_removed()), " of the ",
                                                 WithThousands(metrics.naive_tokens()),
                                                 " tokens of the padded batch")});
  table->AddRow({"bin utilization", absl::StrCat(Percent(metrics.bin_utilization()), ", waste ",
                                                 Percent(metrics.waste_ratio()))});
  table->AddRow({"bin balance", absl::StrFormat("%.3f", metrics.bin_balance())});
  table->AddRow({"packing efficiency", Percent(metrics.packing_efficiency())});
  table->AddRow({"rank imbalance",
                 absl::StrFormat("tokens %.3f, cost %.3f (slowest rank / mean rank)",
                                 metrics.rank_token_imbalance(), metrics.rank_cost_imbalance())});
  table->AddRow(
      {"step time", absl::StrFormat("%.6g predicted, %.6g at best, %.6g ideal (cost units)",
                                    metrics.predicted_step_time(), metrics.lower_bound_step_time(),
                                    metrics.ideal_step_time())});
  AddLoads(options, metrics, table);
  table->AddRow({"step efficiency", Percent(metrics.step_efficiency())});
  AddPipeline(plan_options, options, plan, microbatches, table);
}

// Writes the first sentence behind `title` and the others below it.
void AddSentences(const std::string& title, const std::vector<std::string>& sentences,
                  Table* table) {
  for (size_t i = 0; i < sentences.size(); ++i) {
    table->AddRow({i == 0 ? title : "", sentences[i]});
  }
}

// Adds why ranks wait in a pass.
void AddWaiting(const absl::StatusOr<PlanSentences>& sentences, size_t pass, Table* table) {
  if (!sentences.ok()) {
    table->AddRow({"why ranks wait",
                   absl::StrCat("not known: ", absl::CEscape(sentences.status().message()))});
    return;
  }
  AddSentences("why ranks wait", sentences->waiting[pass], table);
}

// With more ranks than this, the table sums them up instead of listing them.
constexpr uint32_t kMostRanksListed = 32;
// The length of the most expensive rank's bar.
constexpr double kBarLength = 24;

double Fill(const RankLoad& rank) {
  const auto room = static_cast<double>(rank.room);
  return room > 0 ? static_cast<double>(rank.laid_tokens) / room : 0;
}

double MeanCost(const std::vector<RankLoad>& ranks) {
  double total = 0;
  for (const RankLoad& rank : ranks) total += rank.cost;
  return total > 0 ? total / static_cast<double>(ranks.size()) : 1;
}

double MostCost(const std::vector<RankLoad>& ranks) {
  double most = 0;
  for (const RankLoad& rank : ranks) most = std::max(most, rank.cost);
  return most > 0 ? most : 1;
}

std::string ListRanks(const std::vector<RankLoad>& ranks) {
  Table table({Justify::kRight, Justify::kRight, Justify::kRight, Justify::kRight, Justify::kRight,
               Justify::kRight, Justify::kLeft});
  table.AddRow({"rank", "micro-batches", "sequences", "tokens", "fill", "cost / mean", ""});
  const double mean = MeanCost(ranks);
  const double most = MostCost(ranks);
  for (size_t i = 0; i < ranks.size(); ++i) {
    const RankLoad& rank = ranks[i];
    table.AddRow({absl::StrCat(i), WithThousands(rank.microbatches), WithThousands(rank.sequences),
                  WithThousands(rank.laid_tokens), Percent(Fill(rank)),
                  absl::StrFormat("%.3f", rank.cost / mean),
                  std::string(std::lround(kBarLength * rank.cost / most), '#')});
  }
  return table.ToString();
}

// Sums up one column: its least, median and most.
template <typename Value, typename Format>
void AddColumn(const std::vector<RankLoad>& ranks, Value value, Format format,
               std::vector<std::vector<std::string>>* rows) {
  std::vector<decltype(value(ranks[0]))> values;
  values.reserve(ranks.size());
  for (const RankLoad& rank : ranks) values.push_back(value(rank));
  std::sort(values.begin(), values.end());
  (*rows)[1].push_back(format(values.front()));
  (*rows)[2].push_back(format(values[values.size() / 2]));
  (*rows)[3].push_back(format(values.back()));
}

std::string SumUpRanks(const std::vector<RankLoad>& ranks) {
  std::vector<std::vector<std::string>> rows = {
      {absl::StrCat(WithThousands(ranks.size()), " ranks"), "micro-batches", "sequences", "tokens",
       "fill", "cost / mean"},
      {"least"},
      {"median"},
      {"most"}};
  const double mean = MeanCost(ranks);
  AddColumn(
      ranks, [](const RankLoad& rank) { return rank.microbatches; }, WithThousands, &rows);
  AddColumn(
      ranks, [](const RankLoad& rank) { return rank.sequences; }, WithThousands, &rows);
  AddColumn(
      ranks, [](const RankLoad& rank) { return rank.laid_tokens; }, WithThousands, &rows);
  AddColumn(
      ranks, [](const RankLoad& rank) { return Fill(rank); }, Percent, &rows);
  AddColumn(
      ranks, [&](const RankLoad& rank) { return rank.cost / mean; },
      [](double cost) { return absl::StrFormat("%.3f", cost); }, &rows);

  Table table({Justify::kLeft, Justify::kRight, Justify::kRight, Justify::kRight, Justify::kRight,
               Justify::kRight});
  for (std::vector<std::string>& row : rows) table.AddRow(std::move(row));
  const auto slowest =
      std::max_element(ranks.begin(), ranks.end(),
                       [](const RankLoad& a, const RankLoad& b) { return a.cost < b.cost; });
  return absl::StrCat(table.ToString(), "slowest: rank ", slowest - ranks.begin(), "\n");
}

// One line a rank: its content, how full its micro-batches are of true tokens, and its cost
// relative to the mean, with a bar. Beyond kMostRanksListed ranks: the minimum, median and maximum
// of each column, and which rank is slowest. If groups differ in size, a note says what their ranks
// share.
std::string FormatRankTable(const std::vector<RankLoad>& ranks, const Topology& topology) {
  return absl::StrCat(ranks.size() <= kMostRanksListed ? ListRanks(ranks) : SumUpRanks(ranks),
                      topology.dynamic_context
                          ? "micro-batches and sequences count on each rank of their group, tokens "
                            "are divided among its ranks\n"
                          : "");
}

}  // namespace

absl::StatusOr<std::string> FormatPlanTable(const v1::PlanBatchRequest& request,
                                            const PlanOptions& options,
                                            const v1::PlanBatchResponse& response,
                                            const PlanOrigin& origin,
                                            const absl::StatusOr<PlanSentences>& sentences) {
  absl::StatusOr<std::vector<std::vector<Microbatch>>> passes = ListPasses(options, response);
  if (!passes.ok()) return passes.status();
  for (int i = 0; i < response.passes_size(); ++i) {
    absl::Status priced = AddLoadCosts(request.manifest(), response.cost_model_used(),
                                       response.passes(i), &(*passes)[i]);
    if (!priced.ok()) return priced;
  }
  Table header({Justify::kLeft, Justify::kLeft});
  AddHeader(request, response, origin, &header);
  AddExcluded(response, &header);
  AddSelection(request, response, &header);
  if (sentences.ok()) AddSentences("why they wait", sentences->deferral, &header);
  // One pass, the usual case, reads as one block.
  const bool one_pass = options.passes.size() == 1;
  if (one_pass) {
    AddMetrics(options, options.passes[0], response.passes(0), (*passes)[0], &header);
    AddWaiting(sentences, 0, &header);
  }
  std::string text = header.ToString();

  for (int i = 0; i < response.passes_size(); ++i) {
    const PassOptions& pass_options = options.passes[i];
    const v1::PassPlan& plan = response.passes(i);
    if (!one_pass) {
      Table metrics({Justify::kLeft, Justify::kLeft});
      metrics.AddRow({"pass", absl::CEscape(plan.name())});
      AddMetrics(options, pass_options, plan, (*passes)[i], &metrics);
      AddWaiting(sentences, i, &metrics);
      absl::StrAppend(&text, "\n", metrics.ToString());
    }
    absl::StrAppend(&text, "\n",
                    FormatRankTable(SumByRank((*passes)[i], plan, options, pass_options,
                                              response.cost_model_used()),
                                    options.topology));
  }
  return text;
}

}  // namespace batchplan::cli
