// The least that an RPC can cost: a server that reads a message and answers with another.

#ifndef BATCHPLAN_TESTS_BENCH_ECHO_SERVER_H_
#define BATCHPLAN_TESTS_BENCH_ECHO_SERVER_H_

#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>

#include "batchplan/v1/batch_planner.grpc.pb.h"

namespace batchplan {

// Listens on a Unix socket in this process, and holds a connection to it.
class EchoServer {
 public:
  EchoServer();

  // What one call answers.
  void Answer(const v1::PlanBatchResponse& response);

  // Sends `request` and receives the answer, both serialized and parsed on their way. Blocks.
  grpc::Status Call(const v1::PlanBatchRequest& request);
  // The same bytes, which nobody parses.
  grpc::Status CallBytes(const std::string& request);

 private:
  class BytesService : public grpc::CallbackGenericService {
   public:
    grpc::ServerGenericBidiReactor* CreateReactor(grpc::GenericCallbackServerContext*) override;

    grpc::ByteBuffer response;
  };

  class MessageService : public v1::BatchPlanner::Service {
   public:
    grpc::Status PlanBatch(grpc::ServerContext*, const v1::PlanBatchRequest*,
                           v1::PlanBatchResponse*) override;

    v1::PlanBatchResponse response;
  };

  BytesService bytes_;
  MessageService messages_;
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<v1::BatchPlanner::Stub> stub_;
  std::unique_ptr<grpc::GenericStub> bytes_stub_;
};

}  // namespace batchplan

#endif  // BATCHPLAN_TESTS_BENCH_ECHO_SERVER_H_
