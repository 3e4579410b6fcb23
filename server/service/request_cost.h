// How much work a request asks for, from its outline: what admission charges and bounds before
// anything is parsed.
//
//   const uint64_t cost = CostOf(outline);
//
// Numbers of a request that makes no sense may be anything, but never overflow: they end at 2^64
// - 1.

#ifndef BATCHPLAN_SERVER_SERVICE_REQUEST_COST_H_
#define BATCHPLAN_SERVER_SERVICE_REQUEST_COST_H_

#include <cstdint>

#include "server/service/request_outline.h"

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
// asks for beside them. A message of many bytes is work whatever they are.
uint64_t CostOf(const RequestOutline& outline);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_SERVICE_REQUEST_COST_H_
