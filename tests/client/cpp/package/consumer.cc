// Plans a small batch in process, with nothing but the installed headers and libraries.

#include <iostream>

#include "batchplan/client.h"

int main() {
  batchplan::v1::PlanBatchRequest request;
  request.set_preset("nemo_rl_packing");
  request.mutable_topology()->set_data_parallel(2);
  for (const unsigned length : {3, 6, 2, 3, 5, 4}) request.mutable_manifest()->add_lengths(length);
  request.add_passes()->set_max_tokens_per_microbatch(12);

  const batchplan::Client client(batchplan::MakeInProcessConnection({.verify_plans = true}));
  const auto plan = client.PlanBatch(request);
  if (!plan.ok()) {
    std::cerr << plan.status() << "\n";
    return 1;
  }
  std::cout << plan->fingerprint() << "\n";
  return plan->passes(0).sequence_index_size() == request.manifest().lengths_size() ? 0 : 1;
}
