// The errors of joins that get no plan. Each names job and step, and what to do.

#ifndef BATCHPLAN_SERVER_RENDEZVOUS_ERRORS_H_
#define BATCHPLAN_SERVER_RENDEZVOUS_ERRORS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "server/rendezvous/outcome.h"
#include "server/store/step_store.h"

namespace batchplan {

// The step has other terms than `part`: InvalidArgument with the first field that differs;
// AlreadyExists if the other terms are of the worker's own earlier part.
absl::Status OtherTermsError(const StepKey& key, const StepPart& part, const PartReceipt& receipt);

// AlreadyExists: the worker's part is in, with other lengths, group ids or ranks.
absl::Status OtherContentError(const StepKey& key, const StepPart& part);

// FailedPrecondition: the job's run `current` was seen later than the step's.
absl::Status SupersededError(const StepKey& key, const std::string& current);

// DeadlineExceeded, naming the first 32 of the workers that are missing, ascending.
absl::Status MissingWorkersError(const StepKey& key, uint32_t world_size,
                                 const std::vector<uint32_t>& missing);

// DeadlineExceeded: all workers are here, but the last one has only just come.
absl::Status AllTooLateError(const StepKey& key, uint32_t world_size);

// DeadlineExceeded: `stage` says what was waited for instead.
absl::Status TooSlowError(const StepKey& key, const std::string& stage);

// Unavailable: the deadline passed while the store could not be reached.
absl::Status StoreLostError(const StepKey& key, const absl::Status& store_error);

// Unavailable: this replica is of another version and can't make the recorded plan; `mine` is the
// outcome it made. AlreadyExists if both are of one version: the recorded parts are not those that
// were planned.
absl::Status OtherPlannerError(const StepKey& key, const Outcome& recorded, const Outcome& mine);

// Unavailable: this version does not know the form of the recorded outcome.
absl::Status UnknownOutcomeError(const StepKey& key, const std::string& planner_version);

// ResourceExhausted.
absl::Status OutOfMemoryError(const StepKey& key);

// ResourceExhausted.
absl::Status TooManyJoinsError(size_t limit);

// Unavailable.
absl::Status ShuttingDownError();

// Cancelled.
absl::Status CancelledJoinError(const StepKey& key, uint32_t worker);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_RENDEZVOUS_ERRORS_H_
