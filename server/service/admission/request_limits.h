// How much a request asks for, by its outline alone, and the limits on that, known before the
// request is parsed.
//
//   absl::Status status = CheckLimits(outline, limits);
//   const uint64_t cost = CostOf(outline);
//
// All else the planner's options check. For a request that makes no sense the numbers may be
// anything, but they never overflow: they end at 2^64 - 1.

#ifndef BATCHPLAN_SERVER_SERVICE_ADMISSION_REQUEST_LIMITS_H_
#define BATCHPLAN_SERVER_SERVICE_ADMISSION_REQUEST_LIMITS_H_

#include <cstdint>

#include "absl/status/status.h"
#include "server/service/admission/request_outline.h"

namespace batchplan {

// Sequences, each as often as there are passes, and at least once.
uint64_t SequencesPlanned(const RequestOutline& outline);

// The fewest micro-batches of a plan, over all passes, if allow_empty_microbatches is set, as
// nothing else then bounds them; 0 if it isn't.
uint64_t LeastMicrobatches(const RequestOutline& outline);

// The least bytes of the response: those of the arrays over all planned sequences and
// micro-batches. 0 if sequences may be dropped, which is not known yet.
uint64_t LeastAnswerBytes(const RequestOutline& outline);

// What counts against max_queued_sequences: planned sequences, and the micro-batches that a request
// asks for besides. With dynamic_context a sequence counts once for each size of groups, since its
// data are kept by size; with shared_prefixes twice, since plans with and without sharing are
// tried; each load value and each item counts as a quarter of a sequence. A message of many bytes
// counts by its bytes too.
uint64_t CostOf(const RequestOutline& outline);

struct RequestLimits {
  // Each counted once a pass. Above the largest batches of today; such a plan and its answer need
  // at most 200 MiB beyond 50 times the request's bytes.
  uint64_t max_sequences = 1'500'000;
};

// InvalidArgument, naming field, value and limit, if there are too many sequences or items
// (max_sequences each), passes, empty micro-batches or reported ones, or if an id is invalid
// (base/ids.h).
absl::Status CheckLimits(const RequestOutline& outline, const RequestLimits& limits);

// ResourceExhausted, naming size and limit, with the advice never to try again: before planning, if
// the plan is known to exceed the limit of a message; and after it, if it does.
absl::Status CheckAnswerFits(const RequestOutline& outline, uint64_t max_message_bytes);
absl::Status CheckSendable(uint64_t bytes, uint64_t max_message_bytes);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_SERVICE_ADMISSION_REQUEST_LIMITS_H_
