#include "tests/client/cpp/fake_server.h"

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <string>
#include <utility>

namespace batchplan {

FakeServer::FakeServer(Answer answer, const std::string& address) {
  service_.answer = std::move(answer);
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort(address, grpc::InsecureServerCredentials(), &port);
  builder.SetMaxReceiveMessageSize(std::numeric_limits<int>::max());
  builder.RegisterService(&service_);
  server_ = builder.BuildAndStart();
  if (server_ == nullptr) {
    std::fprintf(stderr, "FakeServer can't listen on %s\n", address.c_str());
    std::abort();
  }
  target_ = port > 0 ? "127.0.0.1:" + std::to_string(port) : address;
}

// With a deadline in the past, calls in flight are cancelled.
FakeServer::~FakeServer() { server_->Shutdown(std::chrono::system_clock::now()); }

grpc::Status FakeServer::Service::PlanBatch(grpc::ServerContext*, const v1::PlanBatchRequest*,
                                            v1::PlanBatchResponse* response) {
  return answer(++calls, response);
}

grpc::Status FakeServer::Service::JoinBatch(grpc::ServerContext*,
                                            const v1::JoinBatchRequest* request,
                                            v1::JoinBatchResponse*) {
  const std::scoped_lock lock(mutex);
  joined = *request;
  return grpc::Status::OK;
}

}  // namespace batchplan
