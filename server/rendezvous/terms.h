// What the workers of a step must agree on: the terms of their JoinBatchRequests.
//
//   const std::string terms = SerializeTerms(request);
//   if (terms != others) error = FirstDifference(terms, others);
//
// That is world_size and the whole PlanBatchRequest but for job_id and step (which, with run_id,
// name the step), request_id, and the manifest's arrays (each worker's own). data_parallel_rank,
// own_slice_only, own_part_only, return_request and timeout are each caller's own too. Pure
// functions.

#ifndef BATCHPLAN_SERVER_RENDEZVOUS_TERMS_H_
#define BATCHPLAN_SERVER_RENDEZVOUS_TERMS_H_

#include <cstdint>
#include <string>

#include "batchplan/v1/batch_planner.pb.h"

namespace batchplan {

// The terms in a form in which equal ones are equal bytes: a JoinBatchRequest without the rest.
// Takes the request over: what is large in it is the lengths, which a caller that moves it has
// taken out before.
std::string SerializeTerms(v1::JoinBatchRequest request);

// An FnvHash: the same on every replica.
uint64_t TermsDigest(const std::string& terms);

struct TermsDifference {
  // In the JoinBatchRequest, as in request.passes[0].max_tokens_per_microbatch.
  std::string field;
  // As text, shortened if long; "unset" where there is none.
  std::string first;
  std::string second;
};

// The first field, in the contract's order, in which the two differ. Terms that differ only in what
// this version does not know differ in "request".
TermsDifference FirstDifference(const std::string& first, const std::string& second);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_RENDEZVOUS_TERMS_H_
