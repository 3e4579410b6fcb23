// A server in the test's own process, on a free port, and channels to it.
//
//   TestServer server;
//   auto stub = server.NewStub();
//
// Every channel is a connection of its own and takes messages of any size, so that what limits a
// message in a test is the server. Stops, without a drain's delay, when it is destroyed.

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
  // Default options, but a free port, no HTTP endpoint, no drain delay and no plan cache (a test
  // that sends a request twice means to have it planned twice).
  static ServerOptions Options();

  // Starts a server with `options`, and with `plan` in MakePlan's place if it is given. Ends the
  // process, with the reason, if the server does not start.
  explicit TestServer(const ServerOptions& options = Options(), PlanFunction plan = nullptr);

  // HOST:PORT of the gRPC listener.
  std::string target() const;

  std::shared_ptr<grpc::Channel> NewChannel() const;
  std::unique_ptr<v1::BatchPlanner::Stub> NewStub() const;

  Server& server() { return *server_; }

  // What Prometheus would find now, in its text format; and one series of it, by name and labels,
  // -1 if there is none.
  std::string MetricsText() const;
  double Metric(const std::string& series) const;

 private:
  std::unique_ptr<Server> server_;
};

}  // namespace batchplan

#endif  // BATCHPLAN_TESTS_SUPPORT_TEST_SERVER_H_
