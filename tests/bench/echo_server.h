// The least that an RPC can cost: a server that reads bytes and answers with others.

#ifndef BATCHPLAN_TESTS_BENCH_ECHO_SERVER_H_
#define BATCHPLAN_TESTS_BENCH_ECHO_SERVER_H_

#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>

namespace batchplan {

// Listens on a Unix socket in this process, and holds a connection to it.
class EchoServer {
 public:
  EchoServer();

  // One call that sends `request` and receives `response`, neither of them parsed. Blocks.
  grpc::Status Call(const std::string& request, const std::string& response);

 private:
  class Service : public grpc::CallbackGenericService {
   public:
    grpc::ServerGenericBidiReactor* CreateReactor(grpc::GenericCallbackServerContext*) override;

    // Of all calls.
    grpc::ByteBuffer response;
  };

  Service service_;
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<grpc::GenericStub> stub_;
};

}  // namespace batchplan

#endif  // BATCHPLAN_TESTS_BENCH_ECHO_SERVER_H_
