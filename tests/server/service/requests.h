// Requests for tests of the service, and helpers to send them.

#ifndef BATCHPLAN_TESTS_SERVER_SERVICE_REQUESTS_H_
#define BATCHPLAN_TESTS_SERVER_SERVICE_REQUESTS_H_

#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>

#include <chrono>
#include <cstdint>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "batchplan/v1/batch_planner.grpc.pb.h"

namespace batchplan {

// Far longer than any call lasts, so that a call that hangs fails its test and not the whole run.
inline std::chrono::system_clock::time_point GenerousDeadline() {
  return std::chrono::system_clock::now() + std::chrono::minutes(2);
}

// A valid request with `sequences` lengths of 1 to 4096, scattered but always the same.
inline v1::PlanBatchRequest ValidRequest(int sequences = 256, uint32_t data_parallel = 4) {
  v1::PlanBatchRequest request;
  request.set_job_id("test");
  request.set_request_id("r-1");
  request.set_preset("nemo_rl_packing");
  uint32_t state = 12345;
  for (int i = 0; i < sequences; ++i) {
    state = state * 1664525U + 1013904223U;
    request.mutable_manifest()->add_lengths(1 + (state >> 20));
  }
  request.mutable_topology()->set_data_parallel(data_parallel);
  request.add_passes()->set_max_tokens_per_microbatch(8192);
  return request;
}

// Four micro-batches of a device that needs 0.01 ms a token, 2e-6 ms a token squared and 3 ms more,
// times `slowness`.
inline v1::ReportStepRequest ReportOf(const std::string& job, uint64_t step, double slowness = 1) {
  v1::ReportStepRequest report;
  report.set_job_id(job);
  report.set_step(step);
  for (uint64_t i = 0; i < 4; ++i) {
    const uint64_t length = 100 + (step * 977 + i * 389) % 3000;
    const uint64_t sequences = 1 + (step * 31 + i * 7) % 9;
    v1::MicrobatchTiming* timing = report.add_microbatches();
    timing->set_tokens(length * sequences);
    timing->set_tokens_squared(length * length * sequences);
    timing->set_milliseconds((0.01 * static_cast<double>(timing->tokens()) +
                              2e-6 * static_cast<double>(timing->tokens_squared()) + 3) *
                             slowness);
  }
  return report;
}

inline grpc::Status PlanBatch(v1::BatchPlanner::Stub& stub, const v1::PlanBatchRequest& request,
                              v1::PlanBatchResponse* response) {
  grpc::ClientContext context;
  context.set_deadline(GenerousDeadline());
  return stub.PlanBatch(&context, request, response);
}

// Sends a PlanBatch whose plan does not matter.
inline grpc::Status PlanBatch(v1::BatchPlanner::Stub& stub, const v1::PlanBatchRequest& request) {
  v1::PlanBatchResponse response;
  return PlanBatch(stub, request, &response);
}

// Sends `message` as it is to `method`, "/package.Service/Method": for bytes that no generated stub
// sends, and for services without a stub here. On the wire, a single message to a streaming method
// looks the same.
inline grpc::Status CallBytes(const std::shared_ptr<grpc::Channel>& channel,
                              const std::string& method, const std::string& message,
                              std::string* answer) {
  grpc::ClientContext context;
  context.set_deadline(GenerousDeadline());
  const grpc::Slice slice(message);
  const grpc::ByteBuffer request(&slice, 1);
  grpc::ByteBuffer response;
  std::promise<grpc::Status> done;
  grpc::GenericStub stub(channel);
  stub.UnaryCall(&context, method, grpc::StubOptions(), &request, &response,
                 [&done](grpc::Status status) { done.set_value(std::move(status)); });
  grpc::Status status = done.get_future().get();
  if (!status.ok()) return status;
  std::vector<grpc::Slice> slices;
  status = response.Dump(&slices);
  for (const grpc::Slice& part : slices) {
    answer->append(reinterpret_cast<const char*>(part.begin()), part.size());
  }
  return status;
}

}  // namespace batchplan

#endif  // BATCHPLAN_TESTS_SERVER_SERVICE_REQUESTS_H_
