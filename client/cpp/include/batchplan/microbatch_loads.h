// The loads of micro-batches, for reports of their times.
//
//   for (const v1::Load& load : request.manifest().loads()) report.add_loads(load.name());
//   *report.add_microbatches() =
//       plan->Timing(microbatch, milliseconds, peak_bytes, LoadsOf(microbatch,
//       request.manifest()));

#ifndef BATCHPLAN_CLIENT_CPP_MICROBATCH_LOADS_H_
#define BATCHPLAN_CLIENT_CPP_MICROBATCH_LOADS_H_

#include <vector>

#include "batchplan/v1/options.pb.h"
#include "batchplan/worker_plan.h"

namespace batchplan {

// Sums over the micro-batch's sequences of each load of `manifest`, in its order; `manifest` is
// that of the whole batch. For a dealt load a rank computes other items than its sequences': report
// their sum instead. Linear in the sequences and, for loads with items, in all items.
std::vector<double> LoadsOf(const WorkerMicrobatch& microbatch, const v1::Manifest& manifest);

}  // namespace batchplan

#endif  // BATCHPLAN_CLIENT_CPP_MICROBATCH_LOADS_H_
