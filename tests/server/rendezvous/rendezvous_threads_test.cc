// Real threads, for the thread sanitizer and for orders that the model's one thread can't have.

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <latch>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/rendezvous/rendezvous.h"
#include "server/store/memory_step_store.h"
#include "tests/server/store/forwarding_step_store.h"

namespace batchplan::testing {
namespace {

// Threads that run what they are given, until the end.
class Executor {
 public:
  explicit Executor(int threads) {
    for (int i = 0; i < threads; ++i) {
      threads_.emplace_back([this](const std::stop_token& stop) { Work(stop); });
    }
  }

  void Run(std::function<void()> task) {
    {
      std::lock_guard lock(mutex_);
      tasks_.push_back(std::move(task));
    }
    wake_.notify_one();
  }

  // Runs what is there, and what that leads to.
  void Drain() {
    std::unique_lock lock(mutex_);
    idle_.wait(lock, [this] { return tasks_.empty() && running_ == 0; });
  }

 private:
  void Work(const std::stop_token& stop) {
    std::unique_lock lock(mutex_);
    while (wake_.wait(lock, stop, [this] { return !tasks_.empty(); })) {
      std::function<void()> task = std::move(tasks_.front());
      tasks_.pop_front();
      ++running_;
      lock.unlock();
      task();
      task = nullptr;
      lock.lock();
      --running_;
      idle_.notify_all();
    }
  }

  std::mutex mutex_;
  std::condition_variable_any wake_;
  std::condition_variable idle_;
  std::deque<std::function<void()>> tasks_;
  int running_ = 0;
  std::vector<std::jthread> threads_;
};

// One store for two replicas in one process: each hears of everything.
class SharedStore : public ForwardingStepStore {
 public:
  using ForwardingStepStore::ForwardingStepStore;

  void SetListener(Listener listener) override {
    std::lock_guard lock(mutex_);
    listener_ = std::move(listener);
  }

  void Notify(const StepKey& key, StepEvent event) {
    std::lock_guard lock(mutex_);
    if (listener_) listener_(key, event);
  }

 private:
  std::mutex mutex_;
  Listener listener_;
};

TEST(RendezvousThreadsTest, ManyStepsJoinedAndCancelledByManyThreadsAtTwoReplicas) {
  constexpr uint32_t kWorkers = 8;
  constexpr uint64_t kSteps = 100;
  MemoryStepStore memory({}, std::chrono::steady_clock::now);
  std::array<SharedStore, 2> stores = {SharedStore(&memory), SharedStore(&memory)};
  memory.SetListener([&stores](const StepKey& key, StepEvent event) {
    for (SharedStore& store : stores) store.Notify(key, event);
  });
  Executor executor(4);
  Executor planners(2);
  std::atomic<int> fits = 0;
  RendezvousHooks hooks;
  hooks.executor = [&executor](std::function<void()> task) { executor.Run(std::move(task)); };
  hooks.plan = [&planners](std::shared_ptr<const v1::PlanBatchRequest> request,
                           std::stop_token stop, RendezvousHooks::Planned planned) {
    planners.Run(
        [request = std::move(request), stop = std::move(stop), planned = std::move(planned)] {
          if (stop.stop_requested()) return planned(absl::CancelledError("stopped"));
          v1::PlanBatchResponse response;
          response.set_planner_version("v");
          response.set_fingerprint(
              absl::StrCat(request->step(), ":", request->cost_model().per_token()));
          planned(response);
        });
  };
  hooks.costs = [&fits](const v1::PlanBatchRequest&) -> absl::StatusOr<v1::CostModel> {
    v1::CostModel costs;
    costs.set_per_token(++fits);
    return costs;
  };
  RendezvousOptions options;
  options.planner_version = "v";
  std::array<std::unique_ptr<Rendezvous>, 2> replicas;
  for (size_t r : {0, 1}) {
    replicas[r] =
        std::make_unique<Rendezvous>(options, &stores[r], std::chrono::steady_clock::now, hooks);
  }
  std::jthread ticker([&replicas](const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      for (const auto& replica : replicas) replica->Tick();
      std::this_thread::yield();
    }
  });

  std::mutex mutex;
  std::array<std::set<std::string>, kSteps> fingerprints;
  std::latch planned(static_cast<ptrdiff_t>(kWorkers * kSteps));
  std::latch cancelled(static_cast<ptrdiff_t>(kSteps));
  {
    std::vector<std::jthread> workers;
    for (uint32_t worker = 0; worker < kWorkers; ++worker) {
      workers.emplace_back([&, worker] {
        for (uint64_t step = 0; step < kSteps; ++step) {
          v1::JoinBatchRequest request;
          request.set_worker(worker);
          request.set_world_size(kWorkers);
          request.mutable_request()->set_job_id("job");
          request.mutable_request()->set_step(step);
          request.mutable_request()->mutable_cost_model()->set_fitted(true);
          const Instant deadline = std::chrono::steady_clock::now() + std::chrono::minutes(2);
          Rendezvous& replica = *replicas[(worker + step) % 2];
          replica.Join(request, "", deadline, [&, step](Rendezvous::Answer answer) {
            EXPECT_TRUE(answer.ok()) << answer.status();
            if (answer.ok()) {
              std::lock_guard lock(mutex);
              fingerprints[step].insert((*answer)->plan().fingerprint());
            }
            planned.count_down();
          });
          // And one more of somebody's, which is cancelled at once.
          if (step % kWorkers != worker) continue;
          replica.Cancel(replica.Join(request, "", deadline,
                                      [&](const Rendezvous::Answer&) { cancelled.count_down(); }));
        }
      });
    }
  }
  planned.wait();
  cancelled.wait();
  for (const std::set<std::string>& step : fingerprints) EXPECT_EQ(step.size(), 1);

  ticker.request_stop();
  ticker.join();
  for (const auto& replica : replicas) replica->Shutdown();
  // A plan leads to a task, and a task to a plan.
  for (int i = 0; i < 3; ++i) {
    planners.Drain();
    executor.Drain();
  }
  for (const auto& replica : replicas) {
    EXPECT_EQ(replica->counts().waiting, 0);
    EXPECT_EQ(replica->counts().steps, 0);
  }
  memory.SetListener(nullptr);
  replicas = {};
}

}  // namespace
}  // namespace batchplan::testing
