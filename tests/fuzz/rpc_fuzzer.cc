// Entry of libFuzzer: sends any bytes as the message of any RPC to a running server. Every call
// must be answered, with a plan or with a status that the wire contract lists, and others must
// still get their plans. Anything else ends the process.
//
// The first byte of an input chooses the RPC, the rest is the message.
//
//   tests/run.sh --fuzz 60

#include <google/protobuf/stubs/logging.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/support/proto_buffer_reader.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "batchplan/v1/batch_planner.grpc.pb.h"
#include "server/telemetry/log.h"
#include "tests/support/test_server.h"

namespace batchplan {
namespace {

constexpr std::array<const char*, 3> kMethods = {
    "/batchplan.v1.BatchPlanner/PlanBatch",
    "/batchplan.v1.BatchPlanner/JoinBatch",
    "/batchplan.v1.BatchPlanner/ReportStep",
};
// Enough for most small batches; a worker that waits for others is given up.
constexpr auto kPatience = std::chrono::milliseconds(500);
constexpr int kInputsBetweenChecks = 200;

grpc::ByteBuffer ToBuffer(const void* data, size_t size) {
  const grpc::Slice slice(data, size);
  return grpc::ByteBuffer(&slice, 1);
}

class FuzzedServer {
 public:
  FuzzedServer() : server_(Options()), channel_(server_.NewChannel()), raw_(channel_) {
    expected_ = Fingerprint();
  }

  // Makes the call and checks the answer.
  void Call(const char* method, const uint8_t* data, size_t size) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + kPatience);
    const grpc::ByteBuffer message = ToBuffer(data, size);
    grpc::CompletionQueue queue;
    const auto call = raw_.PrepareUnaryCall(&context, method, message, &queue);
    call->StartCall();
    grpc::ByteBuffer answer;
    grpc::Status status;
    call->Finish(&answer, &status, nullptr);
    void* tag = nullptr;
    bool ok = false;
    queue.Next(&tag, &ok);
    if (!IsExpected(status.error_code())) {
      std::cerr << method << ": " << status.error_code() << ": " << status.error_message()
                << std::endl;
      std::abort();
    }
    if (++calls_ % kInputsBetweenChecks == 0) Check();
  }

 private:
  static ServerOptions Options() {
    ServerOptions options = TestServer::Options();
    options.planning_threads = 2;
    options.verify_plans = true;
    return options;
  }

  // The codes that batch_planner.proto lists, except INTERNAL.
  static bool IsExpected(grpc::StatusCode code) {
    switch (code) {
      case grpc::OK:
      case grpc::INVALID_ARGUMENT:
      case grpc::UNIMPLEMENTED:
      case grpc::ALREADY_EXISTS:
      case grpc::FAILED_PRECONDITION:
      case grpc::RESOURCE_EXHAUSTED:
      case grpc::DEADLINE_EXCEEDED:
        return true;
      default:
        return false;
    }
  }

  // The fingerprint of the plan for a fixed request; ends the process if there is no plan.
  std::string Fingerprint() {
    v1::PlanBatchRequest request;
    for (uint32_t i = 0; i < 100; ++i) request.mutable_manifest()->add_lengths(1 + i * 37 % 500);
    request.mutable_topology()->set_data_parallel(4);
    request.add_passes()->set_max_tokens_per_microbatch(1024);
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::minutes(1));
    v1::PlanBatchResponse response;
    const grpc::Status status =
        v1::BatchPlanner::NewStub(channel_)->PlanBatch(&context, request, &response);
    if (!status.ok()) {
      std::cerr << "others are not served: " << status.error_message() << std::endl;
      std::abort();
    }
    return response.fingerprint();
  }

  void Check() {
    if (Fingerprint() != expected_) std::abort();
  }

  TestServer server_;
  std::shared_ptr<grpc::Channel> channel_;
  grpc::GenericStub raw_;
  std::string expected_;
  int calls_ = 0;
};

FuzzedServer& Fuzzed() {
  static auto* const server = new FuzzedServer;  // lives as long as the process
  return *server;
}

}  // namespace
}  // namespace batchplan

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  // protobuf would report every string that is not UTF-8.
  google::protobuf::SetLogHandler(nullptr);
  // The server would log a line for every call.
  batchplan::SetLogOptions({.lowest = batchplan::Severity::kError});
  batchplan::Fuzzed();
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  batchplan::Fuzzed().Call(batchplan::kMethods[data[0] % batchplan::kMethods.size()], data + 1,
                           size - 1);
  return 0;
}
