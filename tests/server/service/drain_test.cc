// What callers see of a server that shuts down: an answer, or UNAVAILABLE, after which they go
// elsewhere.

#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/server/service/held_planner.h"
#include "tests/server/service/requests.h"
#include "tests/support/scratch_directory.h"
#include "tests/support/test_server.h"

namespace batchplan {
namespace {

// Callers that call without a pause, and the results of their calls.
class Callers {
 public:
  void Start(std::unique_ptr<v1::BatchPlanner::Stub> to, const v1::PlanBatchRequest& request) {
    threads_.emplace_back([this, request, stub = std::move(to)] {
      grpc::Status status;
      while (status.error_code() != grpc::StatusCode::UNAVAILABLE && !stop_) {
        status = PlanBatch(*stub, request);
        std::lock_guard lock(mutex_);
        ++ends_[status.error_code()];
        messages_[status.error_code()] = status.error_message();
      }
    });
  }

  // Returns once `calls` calls have succeeded.
  void WaitFor(int calls) {
    while (ends(grpc::StatusCode::OK) < calls) std::this_thread::yield();
  }

  // Stops the callers that have not met UNAVAILABLE.
  void Join() {
    stop_ = true;
    threads_.clear();
    stop_ = false;
  }

  int ends(grpc::StatusCode code) {
    std::lock_guard lock(mutex_);
    return ends_[code];
  }

  // The codes other than OK and UNAVAILABLE, with their last messages.
  std::string Others() {
    std::string others;
    for (const auto& [code, count] : ends_) {
      if (code == grpc::StatusCode::OK || code == grpc::StatusCode::UNAVAILABLE) continue;
      others += std::to_string(count) + " of code " + std::to_string(code) + ": " +
                messages_[code] + "\n";
    }
    return others;
  }

 private:
  std::atomic<bool> stop_ = false;
  std::mutex mutex_;
  std::map<grpc::StatusCode, int> ends_;
  std::map<grpc::StatusCode, std::string> messages_;
  std::vector<std::jthread> threads_;
};

TEST(DrainTest, TwentyDrainsUnderLoadAnswerOrSayUnavailable) {
  constexpr int kDrains = 20;
  constexpr int kCallers = 8;
  Callers callers;
  for (int drain = 0; drain < kDrains; ++drain) {
    TestServer server;
    const int before = callers.ends(grpc::StatusCode::OK);
    for (int i = 0; i < kCallers; ++i) callers.Start(server.NewStub(), ValidRequest(64));
    callers.WaitFor(before + 2 * kCallers);
    server.server().Drain();
    callers.Join();
  }
  EXPECT_EQ(callers.Others(), "");
}

TEST(DrainTest, ACallInFlightIsAnsweredAndItsConnectionTakesNoMore) {
  HeldPlanner planner(/*hold=*/1);
  ServerOptions options = TestServer::Options();
  // The job may have two threads; the last one is reserved for others.
  options.planning_threads = 3;
  TestServer server(options, planner.function());
  const std::shared_ptr<grpc::Channel> channel = server.NewChannel();
  const auto stub = v1::BatchPlanner::NewStub(channel);
  const std::unique_ptr<v1::BatchPlanner::Stub> idle = server.NewStub();
  grpc::Status held;
  std::jthread call([&] { held = PlanBatch(*stub, ValidRequest()); });
  planner.WaitUntilHeld();
  std::jthread drain([&server] { server.server().Drain(); });
  // The server refuses the first call, while another one is held. The second call finds its
  // connection gone, and no server for a new one.
  grpc::Status refused;
  do {
    refused = PlanBatch(*stub, ValidRequest());
  } while (refused.ok());
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(refused.error_message(), "the server is shutting down");
  EXPECT_EQ(PlanBatch(*idle, ValidRequest()).error_code(), grpc::StatusCode::UNAVAILABLE);
  planner.Release();
  call.join();
  EXPECT_TRUE(held.ok()) << held.error_message();
}

TEST(DrainTest, AUnixSocketDrainsAlike) {
  const ScratchDirectory directory;
  ServerOptions options = TestServer::Options();
  options.listen = "unix:" + directory.Path("socket");
  TestServer server(options);
  Callers callers;
  for (int i = 0; i < 4; ++i) {
    callers.Start(v1::BatchPlanner::NewStub(
                      grpc::CreateChannel(options.listen, grpc::InsecureChannelCredentials())),
                  ValidRequest(64));
  }
  callers.WaitFor(8);
  server.server().Drain();
  callers.Join();
  EXPECT_EQ(callers.Others(), "");
}

}  // namespace
}  // namespace batchplan
