#include "client/cli/comparison.h"

#include <google/protobuf/descriptor.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "client/cli/enum_word.h"
#include "server/planner/presets.h"

namespace batchplan::cli {
namespace {

// Sets what the candidate decides in one pass. The first pass alone says which rank holds a
// sequence.
void SetPacked(v1::Packer packer, bool first, v1::Pass* pass) {
  pass->mutable_packed()->set_packer(packer);
  pass->set_sharding(first ? v1::SHARDING_DEAL_BINS : v1::SHARDING_UNSPECIFIED);
}

void SetPadded(v1::Scan scan, bool first, v1::Pass* pass) {
  pass->mutable_padded()->set_scan(scan);
  pass->set_sharding(first ? v1::SHARDING_STRIDE_SORTED : v1::SHARDING_UNSPECIFIED);
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
    switch (candidate.kind) {
      case CandidateKind::kPreset: {
        changed.set_preset(candidate.name);
        const absl::StatusOr<PassOptions> preset = PresetPass(candidate.name, Topology());
        LeaveToPreset(preset.ok() ? preset->layout : Layout::kPacked, pass);
        break;
      }
      case CandidateKind::kPacker:
        SetPacked(static_cast<v1::Packer>(EnumNumber(v1::Packer_descriptor(), candidate.name)),
                  i == 0, pass);
        break;
      case CandidateKind::kScan:
        SetPadded(static_cast<v1::Scan>(EnumNumber(v1::Scan_descriptor(), candidate.name)), i == 0,
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

}  // namespace batchplan::cli
