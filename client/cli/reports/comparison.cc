#include "client/cli/reports/comparison.h"

#include <google/protobuf/descriptor.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "client/cli/input/field_flag.h"
#include "client/cli/output/microbatches.h"
#include "client/cli/output/request_summary.h"
#include "client/cli/output/table.h"
#include "proto/batchplan/v1/convert.h"
#include "proto/batchplan/v1/json.h"
#include "server/pages/plan_page.h"
#include "server/planner/presets.h"

namespace batchplan::cli {
namespace {

// Sets what the candidate decides in one pass, with the sharding where that pass `shards`.
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

void MarkBest(std::vector<ComparisonRow>* rows) {
  ComparisonRow* best = nullptr;
  for (ComparisonRow& row : *rows) {
    if (!row.figures.ok()) continue;
    if (best == nullptr || IsBetter(*row.figures, *best->figures)) best = &row;
  }
  if (best != nullptr) best->best = true;
}

// What the page of one plan shows of a request and its response, with a pass for each candidate
// that has a plan, in the order of the rows.
struct ShownPlans {
  v1::PlanBatchRequest request;
  v1::PlanBatchResponse response;
};

absl::Status AddPlan(const Client& client, const v1::PlanBatchRequest& request, int pass,
                     ShownPlans* shown) {
  absl::StatusOr<v1::PlanBatchResponse> response = client.PlanBatch(request);
  if (!response.ok()) return response.status();
  const absl::StatusOr<ParsedRequest> parsed = ParseRequest(request);
  if (!parsed.ok()) return parsed.status();
  const PlanOptions& options = parsed->options;
  // The page's script trusts the arrays that it is given.
  if (absl::Status listed = ListPasses(options, *response).status(); !listed.ok()) return listed;
  v1::PassPlan* plan = response->mutable_passes(pass);

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
  // Which sequence is where, is for the page of one plan.
  plan->clear_sequence_index();
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
  }
  return "";
}

std::vector<Candidate> ListCandidates() {
  std::vector<Candidate> candidates;
  for (const absl::string_view preset : PresetNames()) {
    candidates.push_back({CandidateKind::kPreset, std::string(preset)});
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
    // The first pass alone says which rank holds a sequence, unless the manifest does.
    const bool shards = i == 0 && request.manifest().ranks().empty();
    switch (candidate.kind) {
      case CandidateKind::kPreset: {
        changed.set_preset(candidate.name);
        const absl::StatusOr<PassOptions> preset = PresetPass(candidate.name, Topology());
        LeaveToPreset(preset.ok() ? preset->layout : Layout::kPacked, pass);
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
    }
  }
  return changed;
}

std::vector<ComparisonRow> Compare(const Client& client, const v1::PlanBatchRequest& request,
                                   int pass) {
  std::vector<ComparisonRow> rows;
  for (Candidate& candidate : ListCandidates()) {
    absl::StatusOr<Figures> figures = PlanFigures(client, WithCandidate(candidate, request), pass);
    rows.push_back({.candidate = std::move(candidate), .figures = std::move(figures)});
  }
  MarkBest(&rows);
  return rows;
}

Report ReportComparison(const v1::PlanBatchRequest& request, int pass,
                        const std::vector<ComparisonRow>& rows) {
  Report report;
  Table title({Justify::kLeft, Justify::kLeft});
  title.AddRow({"batch", BatchLine(request.manifest())});
  title.AddRow({"job size", TopologyLine(request.topology())});
  title.AddRow(
      {"budget", absl::StrCat(Count(request.passes(pass).max_tokens_per_microbatch(), "token"),
                              " a micro-batch")});
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
    absl::Status added = AddPlan(client, WithCandidate(row.candidate, request), pass, &shown);
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
