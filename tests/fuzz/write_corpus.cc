// Writes the inputs from which the fuzzers start, one a file:
//
//   write_corpus plan_batch DIRECTORY COUNT    requests, for plan_batch_fuzzer
//   write_corpus rpc DIRECTORY COUNT           messages of all RPCs, for rpc_fuzzer

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <string>

#include "server/planner/request/presets.h"
#include "tests/support/generated_request.h"
#include "tests/support/wire_request.h"

namespace batchplan::testing {
namespace {

v1::PlanBatchRequest PlanRequest(uint64_t seed) {
  GeneratedRequest generated = seed % 2 == 0   ? GenerateSmallRequest(seed)
                               : seed % 3 == 0 ? GenerateDynamicRequest(seed)
                                               : GenerateRequest(seed);
  if (seed % 5 < 2) AddSelection(seed, &generated);
  if (seed % 5 == 3) AddLoads(seed, &generated);
  if (seed % 7 < 2) generated.options.mini_batches.max_delay = static_cast<uint32_t>(seed % 4);
  v1::PlanBatchRequest request = WireRequest(generated);
  // Every request names a preset. The passes leave their choices to it in all requests of
  // "balanced", and in some of the others.
  const auto presets = kPresetNames;
  request.set_preset(std::string(presets[seed % presets.size()]));
  if (seed % 5 == 0 || request.preset() == "balanced") {
    for (v1::Pass& pass : *request.mutable_passes()) {
      pass.clear_layout();
      pass.clear_sharding();
      pass.clear_equal_sequence_counts();
    }
  }
  return request;
}

// A join of a step's only worker, or of the second of two.
v1::JoinBatchRequest JoinRequest(uint64_t seed) {
  v1::JoinBatchRequest request;
  *request.mutable_request() = PlanRequest(seed);
  request.mutable_request()->set_job_id("job");
  request.mutable_request()->set_step(seed);
  request.set_world_size(1 + seed % 2);
  request.set_worker(seed % 2);
  request.set_own_slice_only(seed % 3 == 0);
  request.set_own_part_only(seed % 6 == 0);
  request.set_return_request(seed % 4 == 0);
  request.mutable_timeout()->set_nanos(50'000'000);
  return request;
}

v1::ReportStepRequest ReportRequest(uint64_t seed) {
  v1::ReportStepRequest request;
  request.set_job_id("job");
  request.set_step(seed);
  request.set_memory_limit_bytes(seed << 30);
  for (uint64_t i = 1; i <= 1 + seed % 8; ++i) {
    v1::MicrobatchTiming* timing = request.add_microbatches();
    timing->set_tokens(1000 * i);
    timing->set_tokens_squared(1'000'000 * i);
    timing->set_milliseconds(static_cast<double>(seed % 100 + i));
    timing->set_peak_bytes(i << 28);
    if (seed % 2 == 0) {
      timing->set_rank(static_cast<uint32_t>((i - 1) % 2));
      timing->set_slot(static_cast<uint32_t>((i - 1) / 2));
    }
    if (seed % 4 == 0) timing->set_mini_batch(0);
    if (seed % 5 == 0) timing->set_context_parallel(static_cast<uint32_t>(i));
    if (seed % 5 < 2) timing->set_model_share(1.0 / static_cast<double>(i));
    if (seed % 3 == 0) timing->add_loads(256.0 * static_cast<double>(i));
  }
  if (seed % 3 == 0) request.add_loads("patches");
  // A step of two ranks with equally many slots.
  request.set_data_parallel(2);
  request.set_predicted_step_time(static_cast<double>(seed % 100));
  request.set_synchronization(seed % 8 < 4 ? v1::SYNCHRONIZATION_LOCKSTEP
                                           : v1::SYNCHRONIZATION_ACCUMULATED);
  return request;
}

// An input of rpc_fuzzer: the number of a method, and its message.
std::string RpcInput(uint64_t seed) {
  switch (seed % 3) {
    case 0:
      return '\0' + PlanRequest(seed).SerializeAsString();
    case 1:
      return '\1' + JoinRequest(seed).SerializeAsString();
    default:
      return '\2' + ReportRequest(seed).SerializeAsString();
  }
}

bool WriteCorpus(bool rpc, const std::filesystem::path& directory, uint64_t count) {
  std::filesystem::create_directories(directory);
  for (uint64_t seed = 0; seed < count; ++seed) {
    std::ofstream file(directory / std::to_string(seed), std::ios::binary);
    file << (rpc ? RpcInput(seed) : PlanRequest(seed).SerializeAsString());
    if (!file.flush()) return false;
  }
  return true;
}

}  // namespace
}  // namespace batchplan::testing

int main(int argc, char** argv) {
  const std::string kind = argc == 4 ? argv[1] : "";
  if (kind != "plan_batch" && kind != "rpc") {
    std::cerr << "usage: " << argv[0] << " plan_batch|rpc DIRECTORY COUNT\n";
    return 2;
  }
  const bool written =
      batchplan::testing::WriteCorpus(kind == "rpc", argv[2], std::strtoull(argv[3], nullptr, 10));
  return written ? 0 : 1;
}
