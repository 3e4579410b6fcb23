#include "client/cli/reports/comparison.h"

#include <google/protobuf/descriptor.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "client/cli/input/field_flag.h"
#include "client/cli/input/request_input.h"
#include "client/cli/output/microbatches.h"
#include "client/cli/output/request_summary.h"
#include "client/cli/output/table.h"
#include "proto/batchplan/v1/convert.h"
#include "proto/batchplan/v1/json.h"
#include "server/pages/plan_page.h"
#include "server/planner/request/presets.h"

namespace batchplan::cli {
namespace {

// Sets the candidate's packer, and its sharding if this pass decides on ranks.
void SetPacked(v1::Packer packer, bool shards, v1::Pass* pass) {
  pass->mutable_packed()->set_packer(packer);
  pass->set_sharding(shards ? v1::SHARDING_DEAL_BINS : v1::SHARDING_UNSPECIFIED);
}

void SetPadded(v1::Scan scan, bool shards, v1::Pass* pass) {
  pass->mutable_padded()->set_scan(scan);
  pass->set_sharding(shards ? v1::SHARDING_STRIDE_SORTED : v1::SHARDING_UNSPECIFIED);
}

void LeaveToPreset(Layout layout, v1::Pass* pass) {
  pass->clear_sharding();
  if (layout == Layout::kPacked && pass->has_packed()) {
    pass->mutable_packed()->clear_packer();
  } else {
    pass->clear_layout();
  }
}

uint64_t PoolOf(const v1::Topology& topology) {
  return uint64_t{std::max(1U, topology.data_parallel())} *
         std::max(1U, topology.context_parallel());
}

// Turns a pool into groups of `size` ranks. A rank keeps its tokens: the budget and the row buckets
// grow with the size of the group.
void DivideIntoGroupsOf(uint64_t size, v1::PlanBatchRequest* request) {
  v1::Topology* topology = request->mutable_topology();
  const uint64_t pool = PoolOf(*topology);
  const uint64_t before = std::max(1U, topology->context_parallel());
  topology->clear_dynamic_context();
  topology->set_data_parallel(static_cast<uint32_t>(pool / size));
  topology->set_context_parallel(static_cast<uint32_t>(size));
  for (v1::Pass& pass : *request->mutable_passes()) {
    const auto shared = [&](uint64_t tokens) {
      return static_cast<uint32_t>(std::min<uint64_t>(UINT32_MAX, tokens * size / before));
    };
    pass.set_max_tokens_per_microbatch(shared(pass.max_tokens_per_microbatch()));
    if (pass.packed().buckets_size() == 0) continue;
    for (uint32_t& bucket : *pass.mutable_packed()->mutable_buckets()) bucket = shared(bucket);
  }
}

// A plan of groups of one size, in the order that a plan of a pool has: slot by slot.
v1::PassPlan AsSlots(const v1::PassPlan& plan, uint32_t groups, uint32_t size) {
  v1::PassPlan slots = plan;
  slots.clear_row_widths();
  slots.clear_sequence_lengths();
  slots.clear_microbatch_offsets();
  slots.add_microbatch_offsets(0);
  int begin = 0;
  for (const uint32_t count : plan.microbatches_per_rank()) {
    for (uint32_t slot = 0; slot < count; ++slot) {
      for (uint32_t group = 0; group < groups; ++group) {
        const int m = begin + static_cast<int>(group * count + slot);
        for (uint32_t i = plan.microbatch_offsets(m); i < plan.microbatch_offsets(m + 1); ++i) {
          slots.add_sequence_lengths(plan.sequence_lengths(static_cast<int>(i)));
        }
        slots.add_microbatch_offsets(static_cast<uint32_t>(slots.sequence_lengths_size()));
        slots.add_row_widths(plan.row_widths(m));
        slots.add_context_sizes(size);
      }
    }
    begin += static_cast<int>(groups * count);
  }
  return slots;
}

// Refuses fixed sizes at which overlong sequences lose more or fewer tokens than in the pool: they
// plan another batch.
void RefuseOtherTokens(std::vector<ComparisonRow>* rows) {
  const auto pool = std::ranges::find_if(*rows, [](const ComparisonRow& row) {
    return row.figures.ok() && row.candidate.kind != CandidateKind::kContextParallel;
  });
  if (pool == rows->end()) return;
  const uint64_t tokens = pool->figures->metrics.true_tokens();
  for (ComparisonRow& row : *rows) {
    if (row.candidate.kind != CandidateKind::kContextParallel || !row.figures.ok()) continue;
    const uint64_t own = row.figures->metrics.true_tokens();
    if (own == tokens) continue;
    row.figures = absl::InvalidArgumentError(
        absl::StrCat("overlong cuts or drops sequences of other lengths here: ", own,
                     " tokens are planned, in the pool ", tokens));
  }
}

bool IsOfTrees(absl::string_view preset) {
  const absl::StatusOr<PassOptions> pass = PresetPass(preset, Topology());
  return pass.ok() && batchplan::IsOfTrees(pass->sharding);
}

void MarkBest(std::vector<ComparisonRow>* rows) {
  ComparisonRow* best = nullptr;
  for (ComparisonRow& row : *rows) {
    if (!row.figures.ok()) continue;
    if (best == nullptr || IsBetter(*row.figures, *best->figures)) best = &row;
  }
  if (best != nullptr) best->best = true;
}

// The request and response for the page of one plan, with a pass for each candidate that has a
// plan, in the order of the rows.
struct ShownPlans {
  v1::PlanBatchRequest request;
  v1::PlanBatchResponse response;
};

// `dynamic`: whether the page also shows plans of groups that differ in size.
absl::Status AddPlan(const Client& client, const v1::PlanBatchRequest& request, int pass,
                     bool dynamic, ShownPlans* shown) {
  absl::StatusOr<v1::PlanBatchResponse> response = client.PlanBatch(request);
  if (!response.ok()) return response.status();
  const absl::StatusOr<ParsedRequest> parsed = ParseRequest(request);
  if (!parsed.ok()) return parsed.status();
  const PlanOptions& options = parsed->options;
  // The page's script trusts the arrays that it is given.
  if (absl::Status listed = ListPasses(options, *response).status(); !listed.ok()) return listed;
  v1::PassPlan* plan = response->mutable_passes(pass);
  if (dynamic && !options.topology.dynamic_context) {
    *plan = AsSlots(*plan, options.topology.data_parallel, options.topology.context_parallel);
  }

  v1::PlanBatchRequest of_candidate = ShownRequest(request, options);
  v1::Pass shown_pass = std::move(*of_candidate.mutable_passes(pass));
  if (shown->request.passes().empty()) {
    of_candidate.clear_passes();
    of_candidate.clear_preset();
    shown->request = std::move(of_candidate);
    *shown->response.mutable_cost_model_used() = response->cost_model_used();
    shown->response.set_planner_version(response->planner_version());
  }
  *shown->request.add_passes() = std::move(shown_pass);
  // Only the page of a single plan says where each sequence is.
  plan->clear_sequence_index();
  plan->clear_item_ranks();
  *shown->response.add_passes() = std::move(*plan);
  return absl::OkStatus();
}

}  // namespace

std::string KindName(CandidateKind kind) {
  switch (kind) {
    case CandidateKind::kPreset:
      return "preset";
    case CandidateKind::kPacker:
      return "packer";
    case CandidateKind::kScan:
      return "scan";
    case CandidateKind::kSharing:
      return "sharing";
    case CandidateKind::kGroups:
      return "groups";
    case CandidateKind::kContextParallel:
      return "cp";
  }
  return "";
}

std::vector<Candidate> ListCandidates(const v1::PlanBatchRequest& request) {
  const v1::Topology& topology = request.topology();
  const bool shares = request.manifest().shared_prefixes_size() > 0;
  std::vector<Candidate> candidates;
  if (topology.has_dynamic_context()) {
    candidates = {{CandidateKind::kPreset, "balanced"},
                  {CandidateKind::kPreset, "megatron_dynamic_cp"}};
    const uint64_t pool = PoolOf(topology);
    for (uint64_t size = 1; size <= pool; ++size) {
      if (pool % size != 0) continue;
      candidates.push_back({CandidateKind::kContextParallel, absl::StrCat(size)});
    }
    return candidates;
  }
  for (const absl::string_view preset : kPresetNames) {
    if (preset == "megatron_dynamic_cp" || (IsOfTrees(preset) && !shares)) continue;
    candidates.push_back({CandidateKind::kPreset, std::string(preset)});
  }
  if (shares) candidates.push_back({CandidateKind::kSharing, "none"});
  if (shares && request.manifest().group_ids_size() > 0) {
    candidates.push_back({CandidateKind::kGroups, "same_rank"});
  }
  for (std::string& packer : EnumWords(v1::Packer_descriptor())) {
    candidates.push_back({CandidateKind::kPacker, std::move(packer)});
  }
  for (std::string& scan : EnumWords(v1::Scan_descriptor())) {
    candidates.push_back({CandidateKind::kScan, std::move(scan)});
  }
  return candidates;
}

v1::PlanBatchRequest WithCandidate(const Candidate& candidate,
                                   const v1::PlanBatchRequest& request) {
  v1::PlanBatchRequest changed = request;
  changed.clear_preset();
  for (int i = 0; i < changed.passes_size(); ++i) {
    v1::Pass* pass = changed.mutable_passes(i);
    // The ranks of sequences are the manifest's if it has any; otherwise the first pass decides
    // them.
    const bool shards = i == 0 && request.manifest().ranks().empty();
    bool is_padded = candidate.kind == CandidateKind::kScan;
    switch (candidate.kind) {
      case CandidateKind::kPreset: {
        changed.set_preset(candidate.name);
        const absl::StatusOr<PassOptions> preset = PresetPass(candidate.name, Topology());
        LeaveToPreset(preset.ok() ? preset->layout : Layout::kPacked, pass);
        is_padded = preset.ok() && preset->layout == Layout::kPadded;
        break;
      }
      case CandidateKind::kPacker:
        SetPacked(static_cast<v1::Packer>(EnumNumber(v1::Packer_descriptor(), candidate.name)),
                  shards, pass);
        break;
      case CandidateKind::kScan:
        SetPadded(static_cast<v1::Scan>(EnumNumber(v1::Scan_descriptor(), candidate.name)), shards,
                  pass);
        break;
      case CandidateKind::kSharing:
        pass->set_ignore_shared_prefixes(true);
        LeaveToPreset(Layout::kPacked, pass);
        break;
      case CandidateKind::kGroups:
        changed.mutable_mini_batches()->set_groups(
            static_cast<v1::GroupPolicy>(EnumNumber(v1::GroupPolicy_descriptor(), candidate.name)));
        LeaveToPreset(Layout::kPacked, pass);
        break;
      case CandidateKind::kContextParallel:
        LeaveToPreset(Layout::kPacked, pass);
        break;
    }
    if (is_padded && request.manifest().shared_prefixes_size() > 0) {
      pass->set_ignore_shared_prefixes(true);
    }
  }
  if (candidate.kind == CandidateKind::kContextParallel) {
    uint64_t size = 1;
    if (absl::SimpleAtoi(candidate.name, &size)) DivideIntoGroupsOf(size, &changed);
    // Keeps the pool's default costs: they differ from those without dynamic_context.
    if (!request.has_cost_model()) {
      *changed.mutable_cost_model() = DefaultCosts(request.topology());
    }
  }
  return changed;
}

std::vector<ComparisonRow> Compare(const Client& client, const v1::PlanBatchRequest& request,
                                   int pass) {
  std::vector<ComparisonRow> rows;
  for (Candidate& candidate : ListCandidates(request)) {
    absl::StatusOr<Figures> figures = PlanFigures(client, WithCandidate(candidate, request), pass);
    rows.push_back({.candidate = std::move(candidate), .figures = std::move(figures)});
  }
  RefuseOtherTokens(&rows);
  MarkBest(&rows);
  return rows;
}

Report ReportComparison(const v1::PlanBatchRequest& request, int pass,
                        const std::vector<ComparisonRow>& rows) {
  Report report;
  Table title({Justify::kLeft, Justify::kLeft});
  title.AddRow({"batch", BatchLine(request.manifest())});
  title.AddRow({"job size", TopologyLine(request.topology())});
  title.AddRow({"budget", BudgetLine(request.passes(pass).max_tokens_per_microbatch(),
                                     request.topology().has_dynamic_context()
                                         ? std::max(1U, request.topology().context_parallel())
                                         : 0)});
  report.title = absl::StrCat(title.ToString(), "\n");
  report.before = {{"", "", Justify::kLeft, "kind"},
                   {"", "candidate", Justify::kLeft, "candidate"}};
  for (const ComparisonRow& row : rows) {
    report.rows.push_back(
        {.before = {TextCell(KindName(row.candidate.kind)), TextCell(row.candidate.name)},
         .figures = row.figures,
         .after = {},
         .best = row.best});
  }
  report.legend = absl::StrCat("least predicted step time, ", SynchronizationName(request));
  return report;
}

absl::StatusOr<std::string> FormatComparisonPage(const Client& client,
                                                 const v1::PlanBatchRequest& request, int pass,
                                                 const std::vector<ComparisonRow>& rows) {
  ShownPlans shown;
  for (const ComparisonRow& row : rows) {
    if (!row.figures.ok()) continue;
    absl::Status added = AddPlan(client, WithCandidate(row.candidate, request), pass,
                                 request.topology().has_dynamic_context(), &shown);
    if (!added.ok()) return added;
  }
  absl::StatusOr<std::string> rows_json = FormatReportJson(ReportComparison(request, pass, rows));
  if (!rows_json.ok()) return rows_json.status();
  absl::StatusOr<std::string> request_json = ToCompleteJson(shown.request);
  if (!request_json.ok()) return request_json.status();
  absl::StatusOr<std::string> response_json = ToCompleteJson(shown.response);
  if (!response_json.ok()) return response_json.status();
  return FillPage(ComparisonPageTemplate(), {{"rows", *std::move(rows_json)},
                                             {"request", *std::move(request_json)},
                                             {"response", *std::move(response_json)}});
}

}  // namespace batchplan::cli
