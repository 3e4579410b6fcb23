// All that is fitted for one job: its costs, its memory, and the reports that are in.
//
//   absl::Status valid = report.Validate();
//   if (AddReport(report, fit)) ... store SerializeFit(fit) ...
//   Costs(fit.costs), SuggestTokens(fit.memory, limit)
//
//   absl::StatusOr<JobFit> same = ParseFit(state);
//
// A value of up to 28 KiB, whatever has been reported. As bytes, for a store that replicas share,
// little-endian: "BPFT", the version, then each member in its order, a list as its count and its
// entries; at the end a hash of all before it. Versions differ where the layout or the meaning
// does: version 1 has no numbers of sequences; version 2 no sizes of context-parallel groups, all
// of which are 1; version 3 no sums by size and no exchange; version 4 no loads. A fit is written
// in the first version that has all its content, so that older servers can read it.

#ifndef BATCHPLAN_SERVER_FITTING_JOB_FIT_H_
#define BATCHPLAN_SERVER_FITTING_JOB_FIT_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/fitting/cost_fit.h"
#include "server/fitting/memory_fit.h"
#include "server/fitting/step_report.h"

namespace batchplan {

// The costs of a valid report's micro-batches alone, at least one and none empty.
FittedCosts CostsOf(const StepReport& report);

inline constexpr size_t kSeenReports = 256;

// The hashes of the latest reports, so that a report that is sent twice counts once. A value.
struct SeenReports {
  // In order, the latest last.
  std::vector<uint64_t> hashes;

  friend bool operator==(const SeenReports&, const SeenReports&) = default;
};

struct JobFit {
  CostFit costs;
  MemoryFit memory;
  SeenReports seen;

  friend bool operator==(const JobFit&, const JobFit&) = default;
};

// Folds a valid report in. Its loads may be in any order; if their names differ from those of the
// last report that had micro-batches with sequences, the costs of loads are fitted anew. False,
// changing nothing, if it has no micro-batches or is one of the latest kSeenReports. Two reports
// are the same if step and micro-batches are, to the last bit, wherever these ran; measured reports
// of two workers never are.
bool AddReport(const StepReport& report, JobFit& fit);

// The latest version; earlier ones are read too.
inline constexpr uint32_t kFitStateVersion = 5;
// The most bytes of a state.
inline constexpr size_t kMaxFitStateBytes = 28672;

std::string SerializeFit(const JobFit& fit);

// The fit that was written as `state`; an empty fit for no bytes. If a state without sums by size
// has samples of several sizes, its sums start anew. Unimplemented for the state of a later
// version; DataLoss for bytes that are no state of a fit.
absl::StatusOr<JobFit> ParseFit(absl::string_view state);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_FITTING_JOB_FIT_H_
