// Requests for the client's tests.

#ifndef BATCHPLAN_TESTS_CLIENT_CPP_REQUESTS_H_
#define BATCHPLAN_TESTS_CLIENT_CPP_REQUESTS_H_

#include <cstdint>

#include "batchplan/v1/batch_planner.pb.h"

namespace batchplan {

// A valid request of `sequences` lengths from 1 to 1000, the same ones every time.
inline v1::PlanBatchRequest RequestOf(int sequences) {
  v1::PlanBatchRequest request;
  request.set_preset("nemo_rl_packing");
  request.set_job_id("test");
  request.mutable_topology()->set_data_parallel(4);
  uint32_t state = 1;
  for (int i = 0; i < sequences; ++i) {
    state = state * 1664525 + 1013904223;
    request.mutable_manifest()->add_lengths(1 + (state >> 16) % 1000);
  }
  request.add_passes()->set_max_tokens_per_microbatch(1024);
  return request;
}

// As many answers, in groups of five that begin with a prompt of 50 tokens or more, for two ranks.
inline v1::PlanBatchRequest SharingRequestOf(int sequences) {
  v1::PlanBatchRequest request = RequestOf(sequences);
  request.clear_preset();
  request.mutable_topology()->set_data_parallel(2);
  for (int i = 0; i < sequences; ++i) {
    const uint32_t prompt = 50 + static_cast<uint32_t>(i / 5) * 20;
    request.mutable_manifest()->set_lengths(i, prompt + request.manifest().lengths(i) / 2);
    request.mutable_manifest()->add_group_ids(static_cast<uint32_t>(i / 5));
    request.mutable_manifest()->add_shared_prefixes(prompt);
  }
  return request;
}

}  // namespace batchplan

#endif  // BATCHPLAN_TESTS_CLIENT_CPP_REQUESTS_H_
