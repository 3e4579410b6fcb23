// All that is fitted for one job: its costs, its memory, and which reports are in.
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
// in the first version that has all that is in it, which servers that know no later one read.

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

// The hashes of the latest reports, so that one that is sent again is not counted twice. A value.
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

// Folds a valid report in. Its loads may be in any order; where they have other names than those of
// the last report that had micro-batches with sequences, what loads cost is fitted anew. False,
// changing nothing, if it has no micro-batches or is one of the latest kSeenReports. Reports are
// the same if step and micro-batches are, to the last bit, wherever these ran: two workers' never
// are, as long as they measure.
bool AddReport(const StepReport& report, JobFit& fit);

// The latest; all before it are read too.
inline constexpr uint32_t kFitStateVersion = 5;
// What a state takes at most.
inline constexpr size_t kMaxFitStateBytes = 28672;

std::string SerializeFit(const JobFit& fit);

// The fit that `state` was made of; an empty one for no bytes. Where a state without sums by size
// has samples of several sizes, its sums are started anew. Unimplemented for the state of
// a later version; DataLoss for bytes that are no state, or that no fit has.
absl::StatusOr<JobFit> ParseFit(absl::string_view state);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_FITTING_JOB_FIT_H_
