// Requests for the client's tests.

#ifndef BATCHPLAN_TESTS_CLIENT_CPP_REQUESTS_H_
#define BATCHPLAN_TESTS_CLIENT_CPP_REQUESTS_H_

#include <cstdint>

#include "batchplan/v1/batch_planner.pb.h"

namespace batchplan {

// A valid request of `sequences` lengths from 1 to 1000, always the same ones.
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

// `sequences` answers for two ranks, in groups of five that share a prompt of at least 50 tokens.
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

// `sequences` sequences with one or two images each, which are dealt to two ranks.
inline v1::PlanBatchRequest DealingRequestOf(int sequences) {
  v1::PlanBatchRequest request = RequestOf(sequences);
  request.clear_preset();
  request.mutable_topology()->set_data_parallel(2);
  request.mutable_manifest()->add_loads()->set_name("patches");
  v1::LoadItems* items = request.mutable_manifest()->add_items();
  items->set_load("patches");
  for (uint32_t i = 0; i < static_cast<uint32_t>(sequences); ++i) {
    for (uint32_t image = 0; image <= i % 2; ++image) {
      items->add_sequences(i);
      items->add_values(100 + i);
    }
  }
  v1::CostModel* cost = request.mutable_cost_model();
  cost->set_per_token(1);
  v1::LoadCost* load = cost->add_loads();
  load->set_load("patches");
  load->set_per_unit(1);
  load->set_dealt(true);
  return request;
}

}  // namespace batchplan

#endif  // BATCHPLAN_TESTS_CLIENT_CPP_REQUESTS_H_
