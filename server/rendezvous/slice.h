// The part of a plan that one data-parallel rank executes.
//
//   v1::PlanBatchResponse slice;
//   SliceForRank(whole, data_parallel, rank, &slice);
//
// A pure function. Takes the time of a copy of the slice, and of a look at microbatches_per_rank.

#ifndef BATCHPLAN_SERVER_RENDEZVOUS_SLICE_H_
#define BATCHPLAN_SERVER_RENDEZVOUS_SLICE_H_

#include <cstdint>

#include "batchplan/v1/batch_planner.pb.h"

namespace batchplan {

// Writes into `slice`, which is empty, the micro-batches of `rank` in every pass and mini-batch,
// in their order: microbatch_offsets begin at 0, sequence_index still are positions in the
// manifest. All that describes the whole plan (microbatches_per_rank, metrics, excluded,
// fingerprint, versions, cost model) is the whole plan's. `whole` is a plan for `data_parallel`
// ranks, 0 read as 1; rank < data_parallel.
void SliceForRank(const v1::PlanBatchResponse& whole, uint32_t data_parallel, uint32_t rank,
                  v1::PlanBatchResponse* slice);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_RENDEZVOUS_SLICE_H_
