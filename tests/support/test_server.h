// A server in the test's own process, on a free port, and channels to it.
//
//   TestServer server;
//   auto stub = server.NewStub();
//
// Every channel is a connection of its own and accepts messages of any size, so that only the
// server limits messages. The destructor stops the server without its drain delay.

#ifndef BATCHPLAN_TESTS_SUPPORT_TEST_SERVER_H_
#define BATCHPLAN_TESTS_SUPPORT_TEST_SERVER_H_

#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>

#include "batchplan/v1/batch_planner.grpc.pb.h"
#include "server/service/server.h"

namespace batchplan {

class TestServer {
 public:
  // Default options, but with a free port, without HTTP endpoint, drain delay and plan cache: a
  // test that sends a request twice wants two plans.
  static ServerOptions Options();

  // Starts a server with `options`; `plan`, if given, replaces MakePlan. If the server does not
  // start, ends the process with the reason.
  explicit TestServer(const ServerOptions& options = Options(), PlanFunction plan = nullptr);

  // HOST:PORT of the gRPC listener.
  std::string target() const;

  std::shared_ptr<grpc::Channel> NewChannel() const;
  std::unique_ptr<v1::BatchPlanner::Stub> NewStub() const;

  Server& server() { return *server_; }

  // The metrics in Prometheus' text format; and the value of one series, by name and labels, or -1.
  std::string MetricsText() const;
  double Metric(const std::string& series) const;

 private:
  std::unique_ptr<Server> server_;
};

}  // namespace batchplan

#endif  // BATCHPLAN_TESTS_SUPPORT_TEST_SERVER_H_
