#include "server/rendezvous/errors.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/types/span.h"
#include "server/rendezvous/terms.h"

namespace batchplan {
namespace {

std::string Describe(const Outcome& outcome) {
  if (!outcome.is_plan()) return absl::StrCat("refuses it: ", outcome.invalid_argument);
  return absl::StrCat("makes plan ", outcome.fingerprint.substr(0, 16));
}

}  // namespace

absl::Status OtherTermsError(const StepKey& key, const StepPart& part, const PartReceipt& receipt) {
  const TermsDifference difference = FirstDifference(receipt.terms, part.terms);
  if (receipt.terms_worker == part.worker) {
    return absl::AlreadyExistsError(absl::StrCat(
        DescribeStep(key), ": worker ", part.worker, " joined it before with ", difference.field,
        " ", difference.first, ", now it says ", difference.second,
        "; a retry must repeat the request, another request must use another step or run_id"));
  }
  return absl::InvalidArgumentError(absl::StrCat(
      DescribeStep(key), ": ", difference.field, " is ", difference.second, " at worker ",
      part.worker, " but ", difference.first, " at worker ", receipt.terms_worker,
      ", whose part came first; all workers of a step must agree on it"));
}

absl::Status OtherContentError(const StepKey& key, const StepPart& part) {
  return absl::AlreadyExistsError(absl::StrCat(
      DescribeStep(key), ": worker ", part.worker,
      " joined it before with other sequences (manifest.lengths and what it says of each); a retry "
      "must repeat the request, another request must use another step or run_id"));
}

absl::Status SupersededError(const StepKey& key, const std::string& current) {
  return absl::FailedPreconditionError(
      absl::StrCat(DescribeStep(key), ": run \"", current,
                   "\" of the job came later and has superseded it; a run that is to go on needs a "
                   "run_id of its own"));
}

absl::Status MissingWorkersError(const StepKey& key, uint32_t world_size,
                                 const std::vector<uint32_t>& missing) {
  constexpr size_t kNamed = 32;
  const auto named = absl::MakeConstSpan(missing).subspan(0, std::min(missing.size(), kNamed));
  std::string message = absl::StrCat(DescribeStep(key), ": ", missing.size(), " of ", world_size,
                                     " workers did not join in time: ", absl::StrJoin(named, ", "));
  if (missing.size() > kNamed) {
    absl::StrAppend(&message, " ... and ", missing.size() - kNamed, " more");
  }
  return absl::DeadlineExceededError(message);
}

absl::Status AllTooLateError(const StepKey& key, uint32_t world_size) {
  return absl::DeadlineExceededError(
      absl::StrCat(DescribeStep(key), ": all ", world_size,
                   " workers joined, but the last one too late for a plan in the time that was "
                   "left; a retry continues the step"));
}

absl::Status TooSlowError(const StepKey& key, const std::string& stage) {
  return absl::DeadlineExceededError(absl::StrCat(DescribeStep(key), ": the time was over ", stage,
                                                  "; a retry continues the step"));
}

absl::Status StoreLostError(const StepKey& key, const absl::Status& store_error) {
  return absl::UnavailableError(
      absl::StrCat(DescribeStep(key),
                   ": the time was over while the store that its workers meet in could "
                   "not be used: ",
                   std::string(store_error.message())));
}

absl::Status OtherPlannerError(const StepKey& key, const Outcome& recorded, const Outcome& mine) {
  if (recorded.planner_version == mine.planner_version) {
    return absl::AlreadyExistsError(absl::StrCat(
        DescribeStep(key), ": planner version ", recorded.planner_version, " ", Describe(recorded),
        " for the parts that were there when it was planned, but ", Describe(mine),
        " for those that are there now; another request must use another step"));
  }
  return absl::UnavailableError(absl::StrCat(
      DescribeStep(key), ": the step was planned by planner version ", recorded.planner_version,
      ", which ", Describe(recorded), "; version ", mine.planner_version, " of this replica ",
      Describe(mine), "; retry, a replica of version ", recorded.planner_version, " answers"));
}

absl::Status UnknownOutcomeError(const StepKey& key, const std::string& planner_version) {
  return absl::UnavailableError(absl::StrCat(
      DescribeStep(key), ": the step's outcome was recorded in a form that planner version ",
      planner_version, " of this replica does not know; retry, a newer replica answers"));
}

absl::Status OutOfMemoryError(const StepKey& key) {
  return absl::ResourceExhaustedError(absl::StrCat(
      DescribeStep(key), ": this server ran out of memory for it; a retry continues the step"));
}

absl::Status TooManyJoinsError(size_t limit) {
  return absl::ResourceExhaustedError(absl::StrCat(
      "--max_waiting_joins=", limit, " workers wait for their steps here; retry with back-off"));
}

absl::Status ShuttingDownError() {
  return absl::UnavailableError(
      "the server is shutting down; retry, another replica continues the step");
}

absl::Status CancelledJoinError(const StepKey& key, uint32_t worker) {
  return absl::CancelledError(absl::StrCat(DescribeStep(key), ": the call was cancelled; worker ",
                                           worker, "'s part stays"));
}

}  // namespace batchplan
