// One batch planned by every algorithm there is: what `batchplan compare` finds out, as a report
// and as a page for the browser.

#ifndef BATCHPLAN_CLIENT_CLI_REPORTS_COMPARISON_H_
#define BATCHPLAN_CLIENT_CLI_REPORTS_COMPARISON_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "batchplan/client.h"
#include "batchplan/v1/batch_planner.pb.h"
#include "client/cli/reports/figures.h"
#include "client/cli/reports/report.h"

namespace batchplan::cli {

// What a candidate is, and the flag of `batchplan plan` that asks for it.
enum class CandidateKind : uint8_t {
  kPreset,   // --preset
  kPacker,   // --packer, its bins dealt to the ranks: --sharding deal_bins
  kScan,     // --scan, ranks taking strides of the sorted order: --sharding stride_sorted
  kSharing,  // "none": --ignore_shared_prefixes
  kGroups,   // --groups
  // --cp, of a pool of ranks without --dynamic_cp: its name is the size.
  kContextParallel,
};

struct Candidate {
  CandidateKind kind = CandidateKind::kPreset;
  // As the flag takes it, such as first_fit_decreasing.
  std::string name;
};

struct ComparisonRow {
  Candidate candidate;
  // Or why the planner refused.
  absl::StatusOr<Figures> figures;
  // The one with the least predicted step time under the request's synchronization; among equals,
  // the one with fewer micro-batches, then the earlier. No row is best if all are refused.
  bool best = false;
};

// "preset", "packer", "scan", "sharing", "groups" or "cp".
std::string KindName(CandidateKind kind);

// Every preset, packer and scan of the contract, in its order, for a request without
// dynamic_context: "balanced" leads. With shared prefixes also the presets of trees; and "balanced"
// with nothing shared, and with groups, if there are any, each on one rank. With dynamic_context,
// the presets that divide a pool, and as a fixed size each number that divides its ranks.
std::vector<Candidate> ListCandidates(const v1::PlanBatchRequest& request);

// `request` with the candidate's algorithm in place of its own: the preset, and in all passes
// sharding, layout, packer and scan; no sharding where the manifest gives the ranks. Packed
// candidates keep the request's row padding, padded ones share nothing. A fixed size has as many
// ranks as the pool, and as many tokens on each of them.
v1::PlanBatchRequest WithCandidate(const Candidate& candidate, const v1::PlanBatchRequest& request);

// Plans `request` with every candidate, one after the other, and takes the figures of the pass at
// position `pass` (FindPass). A candidate that the planner refuses has the reason in its row. So
// has a fixed size that cuts or drops other tokens than the pool it is compared with.
std::vector<ComparisonRow> Compare(const Client& client, const v1::PlanBatchRequest& request,
                                   int pass);

// A row a candidate, in the comparison's order. The columns of its own are `kind` (KindName) and
// `candidate`. `request` is the one compared for, `pass` the position of its pass.
Report ReportComparison(const v1::PlanBatchRequest& request, int pass,
                        const std::vector<ComparisonRow>& rows);

// The table, where the time of each candidate's step goes, and a picture of each plan: one HTML
// file that needs nothing else, about 6 bytes a sequence and candidate. `rows` are what Compare
// gave for the other arguments. It keeps figures and not plans: these are made again, which gives
// the same ones.
absl::StatusOr<std::string> FormatComparisonPage(const Client& client,
                                                 const v1::PlanBatchRequest& request, int pass,
                                                 const std::vector<ComparisonRow>& rows);

// The page, complete but for its data, "rows", "request" and "response": see
// server/pages/plan_page.h.
absl::string_view ComparisonPageTemplate();

}  // namespace batchplan::cli

#endif  // BATCHPLAN_CLIENT_CLI_REPORTS_COMPARISON_H_
