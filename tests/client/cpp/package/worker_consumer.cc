// Packs a small batch in process, with nothing but the installed headers and libraries.

#include <cstdint>
#include <iostream>
#include <vector>

#include "batchplan/worker_client.h"

int main() {
  batchplan::v1::PlanBatchRequest request;
  request.mutable_topology()->set_data_parallel(2);
  for (const unsigned length : {3, 6, 2, 3, 5, 4}) request.mutable_manifest()->add_lengths(length);
  request.add_passes()->set_max_tokens_per_microbatch(12);
  const std::vector<int32_t> ids(6 * 6, 1);

  const batchplan::Client client(batchplan::MakeInProcessConnection());
  int32_t tokens = 0;
  for (uint32_t rank = 0; rank < 2; ++rank) {
    batchplan::WorkerOptions options;
    options.data_parallel_rank = rank;
    const auto worker = batchplan::WorkerClient::Create(client, options);
    const auto plan = worker->FetchPlan(request);
    if (!plan.ok()) {
      std::cerr << plan.status() << "\n";
      return 1;
    }
    for (const batchplan::WorkerMicrobatch& microbatch : plan->microbatches()) {
      std::vector<int32_t> row(microbatch.row_width);
      batchplan_field field = {};
      field.element_size = sizeof(int32_t);
      field.elements_per_token = 1;
      field.source = ids.data();
      field.width = 6;
      field.destination = row.data();
      if (const absl::Status packed = plan->Pack(microbatch, {field}); !packed.ok()) {
        std::cerr << packed << "\n";
        return 1;
      }
      for (const int32_t id : row) tokens += id;
    }
  }
  std::cout << tokens << " tokens\n";
  return tokens == 23 ? 0 : 1;
}
