// A gRPC server whose PlanBatch answers as the test says, for answers that a real planner gives
// only in trouble.

#ifndef BATCHPLAN_TESTS_CLIENT_CPP_FAKE_SERVER_H_
#define BATCHPLAN_TESTS_CLIENT_CPP_FAKE_SERVER_H_

#include <grpcpp/grpcpp.h>

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "batchplan/v1/batch_planner.grpc.pb.h"

namespace batchplan {

class FakeServer {
 public:
  // Answers the call that arrives as number `call`, counted from 1.
  using Answer = std::function<grpc::Status(int call, v1::PlanBatchResponse* response)>;

  // Listens on `address`; ends the process if it can't.
  explicit FakeServer(Answer answer, const std::string& address = "127.0.0.1:0");
  ~FakeServer();

  const std::string& target() const { return target_; }
  int calls() const { return service_.calls; }
  // The last part sent to JoinBatch, which gets an empty answer.
  v1::JoinBatchRequest joined() const {
    const std::scoped_lock lock(service_.mutex);
    return service_.joined;
  }

 private:
  struct Service final : v1::BatchPlanner::Service {
    grpc::Status PlanBatch(grpc::ServerContext* context, const v1::PlanBatchRequest* request,
                           v1::PlanBatchResponse* response) override;
    grpc::Status JoinBatch(grpc::ServerContext* context, const v1::JoinBatchRequest* request,
                           v1::JoinBatchResponse* response) override;

    Answer answer;
    std::atomic<int> calls = 0;
    mutable std::mutex mutex;
    v1::JoinBatchRequest joined;
  };

  Service service_;
  std::unique_ptr<grpc::Server> server_;
  std::string target_;
};

}  // namespace batchplan

#endif  // BATCHPLAN_TESTS_CLIENT_CPP_FAKE_SERVER_H_
