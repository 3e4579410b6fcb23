// Calls that wait for a store that does not answer.

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <prometheus/text_serializer.h>

#include <chrono>
#include <condition_variable>
#include <latch>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include "server/planner/make_plan.h"
#include "server/service/rpc/planner_service.h"
#include "server/store/memory_fit_store.h"
#include "server/store/memory_step_store.h"
#include "tests/server/service/requests.h"

namespace batchplan {
namespace {

// Answers nothing until released.
class HeldFitStore final : public FitStore {
 public:
  absl::StatusOr<StoredFit> Get(const std::string& job_id) override {
    Hold();
    return store_.Get(job_id);
  }
  absl::StatusOr<bool> Replace(const std::string& job_id, uint64_t version,
                               const std::string& state, const std::string& owner) override {
    return store_.Replace(job_id, version, state, owner);
  }

  void WaitUntilHeld() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return held_; });
  }
  void Release() {
    std::lock_guard lock(mutex_);
    released_ = true;
    changed_.notify_all();
  }

 private:
  void Hold() {
    std::unique_lock lock(mutex_);
    held_ = true;
    changed_.notify_all();
    changed_.wait(lock, [this] { return released_; });
  }

  MemoryFitStore store_{16};
  std::mutex mutex_;
  std::condition_variable changed_;
  bool held_ = false;
  bool released_ = false;
};

// The service with one thread of each kind and stores of the test.
class StoreWaitsTest : public testing::Test {
 protected:
  StoreWaitsTest() {
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    builder.RegisterService(&service_);
    server_ = builder.BuildAndStart();
    stub_ = v1::BatchPlanner::NewStub(grpc::CreateChannel("127.0.0.1:" + std::to_string(port),
                                                          grpc::InsecureChannelCredentials()));
  }
  ~StoreWaitsTest() override {
    fit_store_.Release();
    collective_.Shutdown();
    server_->Shutdown();
    pool_.Stop();
    store_threads_.Stop();
    report_threads_.Stop();
  }

  grpc::Status Report() {
    v1::ReportStepRequest request;
    request.set_job_id("test");
    grpc::ClientContext context;
    context.set_deadline(GenerousDeadline());
    v1::ReportStepResponse response;
    return stub_->ReportStep(&context, request, &response);
  }

  // Joins as the only worker of a step.
  grpc::Status Join(std::chrono::system_clock::time_point deadline = GenerousDeadline()) {
    grpc::ClientContext context;
    context.set_deadline(deadline);
    v1::JoinBatchResponse response;
    return stub_->JoinBatch(&context, Part(), &response);
  }

  static v1::JoinBatchRequest Part() {
    v1::JoinBatchRequest part;
    *part.mutable_request() = ValidRequest();
    part.set_world_size(1);
    return part;
  }

  // Returns once the metrics have `line`.
  void WaitForMetric(const std::string& line) {
    const auto text = [this] {
      return prometheus::TextSerializer().Serialize(metrics_.collectable()->Collect());
    };
    while (text().find(line) == std::string::npos) std::this_thread::yield();
  }

  HeldFitStore fit_store_;
  MemoryStepStore steps_{{}, [] { return std::chrono::steady_clock::now(); }};
  Metrics metrics_{"test"};
  PlanningPool pool_{{.threads = 1}, &metrics_};
  StoreThreads store_threads_{1, 100};
  StoreThreads report_threads_{1, 100};
  ByteBudget waiting_bytes_{"max_waiting_bytes", 1 << 20};
  JobFits fits_{&fit_store_};
  const PlanBatchConfig config_{
      .plan = MakePlan, .max_message_bytes = 1 << 20, .observers = {.metrics = &metrics_}};
  CollectivePlanner collective_{{}, {.steps = &steps_}, &fits_, &store_threads_, &pool_, config_};
  PlannerService service_{{.pool = &pool_,
                           .store_threads = &store_threads_,
                           .report_threads = &report_threads_,
                           .waiting_bytes = &waiting_bytes_,
                           .metrics = &metrics_,
                           .limits = {}},
                          config_,
                          &collective_,
                          &fits_};
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<v1::BatchPlanner::Stub> stub_;
};

TEST_F(StoreWaitsTest, ReportsThatWaitForTheStoreDelayNoJoins) {
  std::jthread first([this] { EXPECT_TRUE(Report().ok()); });
  std::jthread second([this] { EXPECT_TRUE(Report().ok()); });
  fit_store_.WaitUntilHeld();
  const grpc::Status joined = Join();
  EXPECT_TRUE(joined.ok()) << joined.error_message();
  fit_store_.Release();
}

TEST_F(StoreWaitsTest, ACallThatIsGivenUpIsAnsweredWhileOthersHoldTheStoresThreads) {
  std::latch release(1);
  store_threads_.Submit([&release] { release.wait(); });
  {
    grpc::ClientContext context;
    std::jthread caller([&] {
      v1::JoinBatchResponse response;
      EXPECT_EQ(stub_->JoinBatch(&context, Part(), &response).error_code(), grpc::CANCELLED);
    });
    while (waiting_bytes_.held() == 0) std::this_thread::yield();
    context.TryCancel();
  }
  WaitForMetric("batchplan_requests_total{code=\"CANCELLED\",method=\"JoinBatch\"} 1\n");
  EXPECT_EQ(Join(std::chrono::system_clock::now() + std::chrono::milliseconds(100)).error_code(),
            grpc::DEADLINE_EXCEEDED);
  // Whichever end notices first; the message is freed too.
  while (waiting_bytes_.held() != 0) std::this_thread::yield();
  release.count_down();
  EXPECT_TRUE(Join().ok());
}

}  // namespace
}  // namespace batchplan
