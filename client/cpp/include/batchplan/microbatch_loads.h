// What micro-batches have of a batch's loads, for reports of what they took.
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
// that of the whole batch. Of a dealt load a rank computes other items than its sequences': report
// those in the place of this sum. Takes time linear in the sequences, of loads with items also in
// all of these.
std::vector<double> LoadsOf(const WorkerMicrobatch& microbatch, const v1::Manifest& manifest);

}  // namespace batchplan

#endif  // BATCHPLAN_CLIENT_CPP_MICROBATCH_LOADS_H_
