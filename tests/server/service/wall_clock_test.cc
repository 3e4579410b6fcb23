// The server's wall clock is changed while calls wait: they wait as long as they asked for.

#include <fcntl.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "tests/server/service/requests.h"
#include "tests/server/service/server_process.h"
#include "tests/support/scratch_directory.h"

namespace batchplan {
namespace {

class SteppedServer {
 public:
  SteppedServer() {
    // stepped_clock.cc reads this file.
    const int file = open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    EXPECT_EQ(ftruncate(file, sizeof(int64_t)), 0);
    ahead_ = static_cast<volatile int64_t*>(
        mmap(nullptr, sizeof(int64_t), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0));
    close(file);
    server_ = std::make_unique<ServerProcess>(
        std::vector<std::string>{kAnyPort, kNoMetrics, "--drain_delay=0", "--planning_threads=2"},
        std::vector<std::string>{absl::StrCat("LD_PRELOAD=", BATCHPLAN_STEPPED_CLOCK),
                                 absl::StrCat("STEPPED_CLOCK=", path_)});
    const int port = PortOf(server_->ReadUntil("event=listening"), "grpc");
    server_->DropOutput();
    stub_ = v1::BatchPlanner::NewStub(
        grpc::CreateChannel(absl::StrCat("127.0.0.1:", port), grpc::InsecureChannelCredentials()));
  }
  ~SteppedServer() {
    server_->Signal(SIGTERM);
    EXPECT_EQ(server_->Wait(), 0);
  }

  void SetAhead(absl::Duration by) { *ahead_ = absl::ToInt64Seconds(by); }

  v1::BatchPlanner::Stub& stub() { return *stub_; }

 private:
  const ScratchDirectory folder_;
  const std::string path_ = folder_.Path("ahead");
  volatile int64_t* ahead_ = nullptr;
  std::unique_ptr<ServerProcess> server_;
  std::unique_ptr<v1::BatchPlanner::Stub> stub_;
};

class WallClockTest : public ::testing::TestWithParam<absl::Duration> {
 protected:
  SteppedServer server_;
};

// A request that needs a while, so that the clock changes during planning.
v1::PlanBatchRequest LongRequest() {
  v1::PlanBatchRequest request = ValidRequest(0);
  request.set_effort(v1::EFFORT_THOROUGH);
  for (uint32_t i = 0; i < 300'000; ++i) {
    request.mutable_manifest()->add_lengths(1 + i * 7919 % 4096);
  }
  request.set_preset("balanced");
  return request;
}

TEST_P(WallClockTest, APlanGoesOnWhenTheClockIsSet) {
  grpc::Status status;
  std::jthread call([&] { status = PlanBatch(server_.stub(), LongRequest()); });
  absl::SleepFor(absl::Milliseconds(100));
  server_.SetAhead(GetParam());
  call.join();
  EXPECT_TRUE(status.ok()) << status.error_message();
}

TEST_P(WallClockTest, AWorkerWaitsForTheOthersWhenTheClockIsSet) {
  const auto join = [this](uint32_t worker) {
    v1::JoinBatchRequest part;
    part.set_worker(worker);
    part.set_world_size(2);
    part.mutable_timeout()->set_seconds(50);
    *part.mutable_request() = ValidRequest();
    part.mutable_request()->set_job_id("job");
    grpc::ClientContext context;
    context.set_deadline(GenerousDeadline());
    v1::JoinBatchResponse response;
    return server_.stub().JoinBatch(&context, part, &response);
  };
  grpc::Status first;
  std::jthread call([&] { first = join(0); });
  absl::SleepFor(absl::Milliseconds(300));
  server_.SetAhead(GetParam());
  // Longer than between two looks of the rendezvous at its clock.
  absl::SleepFor(absl::Milliseconds(300));
  const grpc::Status second = join(1);
  call.join();
  EXPECT_TRUE(first.ok()) << first.error_message();
  EXPECT_TRUE(second.ok()) << second.error_message();
}

TEST_P(WallClockTest, CallsThatComeAfterItWasSetHaveTheirTime) {
  server_.SetAhead(GetParam());
  for (int i = 0; i < 3; ++i) {
    const grpc::Status status = PlanBatch(server_.stub(), ValidRequest());
    EXPECT_TRUE(status.ok()) << status.error_message();
  }
}

INSTANTIATE_TEST_SUITE_P(Steps, WallClockTest, ::testing::Values(absl::Hours(1), -absl::Hours(1)),
                         [](const auto& info) {
                           return info.param > absl::ZeroDuration() ? "Forward" : "Back";
                         });

}  // namespace
}  // namespace batchplan
