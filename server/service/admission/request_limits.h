// What one request asks for, by its outline alone, and the limits on it: both are known before
// anything of the request is parsed.
//
//   absl::Status status = CheckLimits(outline, limits);
//   const uint64_t cost = CostOf(outline);
//
// What a request may ask beyond its size, the planner's options check. Numbers of a request that
// makes no sense may be anything, but never overflow: they end at 2^64 - 1.

#ifndef BATCHPLAN_SERVER_SERVICE_ADMISSION_REQUEST_LIMITS_H_
#define BATCHPLAN_SERVER_SERVICE_ADMISSION_REQUEST_LIMITS_H_

#include <cstdint>

#include "absl/status/status.h"
#include "server/service/admission/request_outline.h"

namespace batchplan {

// Sequences, each as often as there are passes, and at least once.
uint64_t SequencesPlanned(const RequestOutline& outline);

// The fewest micro-batches that a plan of all passes has where allow_empty_microbatches is set, for
// then nothing else bounds them; 0 where it isn't.
uint64_t LeastMicrobatches(const RequestOutline& outline);

// The response has at least so many bytes: what the arrays of all planned sequences and
// micro-batches take. 0 where sequences may be dropped, which is not known yet.
uint64_t LeastAnswerBytes(const RequestOutline& outline);

// What counts against max_queued_sequences: sequences planned, and micro-batches that a request
// asks for beside them. With dynamic_context a sequence counts once for each size that its group
// may have, as all that is kept of it is by size; with shared_prefixes it counts twice, as plans
// with and without sharing are tried; each of its loads, and each item, counts as a quarter of a
// sequence. A message of many bytes is work whatever they are.
uint64_t CostOf(const RequestOutline& outline);

struct RequestLimits {
  // Each counted once a pass. Above the largest batches of today; a plan of these, with the answer,
  // takes no more than 200 MiB beyond 50 times the request's own bytes.
  uint64_t max_sequences = 1'500'000;
};

// InvalidArgument, naming field, value and limit, if there are too many sequences or items, each of
// which max_sequences limits, passes, empty micro-batches or reported ones, or an id is none
// (base/ids.h).
absl::Status CheckLimits(const RequestOutline& outline, const RequestLimits& limits);

// ResourceExhausted, never to be tried again, naming size and limit, if the whole plan of a request
// is known to take more than a message may have; and once it is planned, if it does take more.
absl::Status CheckAnswerFits(const RequestOutline& outline, uint64_t max_message_bytes);
absl::Status CheckSendable(uint64_t bytes, uint64_t max_message_bytes);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_SERVICE_ADMISSION_REQUEST_LIMITS_H_
