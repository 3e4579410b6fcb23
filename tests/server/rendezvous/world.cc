#include "tests/server/rendezvous/world.h"

#include <gtest/gtest.h>

#include <new>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "server/rendezvous/outcome.h"

namespace batchplan::testing {
// The shared store as one replica reaches it.
class World::ReplicaStore : public StepStore {
 public:
  explicit ReplicaStore(World* world) : world_(world) {}

  void SetListener(Listener listener) override { listener_ = std::move(listener); }
  absl::StatusOr<PartReceipt> PutPart(const StepKey& key, const StepPart& part) override {
    return Call("PutPart", [&](StepStore& store) {
      absl::StatusOr<PartReceipt> receipt = store.PutPart(key, part);
      if (!key.run_id.empty() && world_->runs_seen_.insert(key.run_id).second) {
        world_->current_run_ = key.run_id;
      }
      return receipt;
    });
  }
  absl::StatusOr<StepProgress> Progress(const StepKey& key, const std::string& waits_at) override {
    return Call("Progress", [&](StepStore& store) { return store.Progress(key, waits_at); });
  }
  absl::Status Leave(const StepKey& key, const std::string& waits_at) override {
    return Call("Leave", [&](StepStore& store) { return store.Leave(key, waits_at); });
  }
  absl::StatusOr<StepParts> Parts(const StepKey& key) override {
    return Call("Parts", [&](StepStore& store) { return store.Parts(key); });
  }
  absl::StatusOr<StandingOutcome> PutOutcome(const StepKey& key, const std::string& incarnation,
                                             const StepOutcome& outcome) override {
    return Call("PutOutcome", [&](StepStore& store) {
      absl::StatusOr<StandingOutcome> stands = store.PutOutcome(key, incarnation, outcome);
      if (stands.ok()) {
        world_->recorded_.insert(DecodeOutcome(stands->bytes).value_or(Outcome()).fingerprint);
      }
      return stands;
    });
  }
  absl::StatusOr<std::optional<std::string>> Plan(const StepKey& key,
                                                  const std::string& incarnation) override {
    return Call("Plan", [&](StepStore& store) { return store.Plan(key, incarnation); });
  }
  absl::Status MarkServed(const StepKey& key, const std::string& incarnation,
                          const std::vector<uint32_t>& workers) override {
    return Call("MarkServed",
                [&](StepStore& store) { return store.MarkServed(key, incarnation, workers); });
  }
  absl::StatusOr<bool> Restore(const StepKey& key, const WholeStep& step) override {
    return Call("Restore", [&](StepStore& store) { return store.Restore(key, step); });
  }

  void Notify(const StepKey& key, StepEvent event) {
    if (listener_) listener_(key, event);
  }

 private:
  template <typename F>
  auto Call(const char* name, const F& call) -> decltype(call(std::declval<StepStore&>())) {
    ++world_->store_calls_;
    if (world_->Fails()) return absl::UnavailableError("the store is down");
    if (world_->memory_fails_in_ == name || world_->MemoryFails()) throw std::bad_alloc();
    world_->Overlap();
    auto answer = call(*world_->store_);
    world_->Overlap();
    if (world_->Fails()) return absl::UnavailableError("the store is gone");
    if (world_->MemoryFails()) throw std::bad_alloc();
    return answer;
  }

  World* const world_;
  Listener listener_;
};

World::World(const WorldOptions& options, Choices* choices)
    : options_(options), left_(options), choices_(choices) {
  MakeStore();
  for (size_t i = 0; i < options.replicas; ++i) replicas_.push_back(MakeReplica(i));
}

World::~World() = default;

void World::MakeStore() {
  store_ = std::make_unique<MemoryStepStore>(
      MemoryStepStoreOptions{.lifetimes = {.time_to_live = kWorldTimeToLive,
                                           .retention = kWorldRetention,
                                           .planning = kWorldPlanning},
                             .max_bytes = 1 << 20},
      clock_.clock());
  store_->SetListener([this](const StepKey& key, StepEvent event) {
    if (lose_hints_ || (event == StepEvent::kIncomplete && !options_.remembers)) return;
    for (const auto& replica : replicas_) {
      if (replica->rendezvous) replica->hints.insert({key, event});
    }
  });
}

std::unique_ptr<World::Replica> World::MakeReplica(size_t index) {
  auto replica = std::make_unique<Replica>();
  replica->store = std::make_unique<ReplicaStore>(this);
  Replica* const raw = replica.get();
  RendezvousHooks hooks;
  hooks.executor = [raw](std::function<void()> task) { raw->tasks.push_back(std::move(task)); };
  hooks.plan = [raw](std::shared_ptr<const v1::PlanBatchRequest> request, std::stop_token stop,
                     RendezvousHooks::Planned planned) {
    raw->plans.push_back({std::move(request), std::move(stop), std::move(planned)});
  };
  hooks.costs = [this](const v1::PlanBatchRequest& request) -> absl::StatusOr<v1::CostModel> {
    EXPECT_EQ(request.job_id(), key_.job_id);
    v1::CostModel costs;
    costs.set_per_token(++fits_);
    return costs;
  };
  hooks.retry_after = [](const absl::Status& status) -> std::optional<absl::Duration> {
    if (status != NoRoomForNow()) return std::nullopt;
    return absl::Milliseconds(100);
  };
  RendezvousOptions options;
  options.max_waiting = options_.max_waiting;
  options.planner_version = options_.versions ? absl::StrCat("v", index) : "v";
  options.replica = absl::StrCat("replica ", index);
  if (options_.remembers) {
    options.max_planned_bytes = 1 << 20;
    options.max_given_bytes = 1 << 20;
  }
  options.shares_plans = options_.shares;
  replica->rendezvous =
      std::make_unique<Rendezvous>(options, replica->store.get(), clock_.clock(), std::move(hooks));
  return replica;
}

v1::JoinBatchRequest World::Request(uint32_t worker) const {
  v1::JoinBatchRequest request;
  request.mutable_request()->set_job_id(key_.job_id);
  request.mutable_request()->set_step(key_.step);
  request.mutable_request()->set_request_id(absl::StrCat("worker ", worker));
  request.mutable_request()->mutable_cost_model()->set_fitted(options_.fitted);
  // Worker w has w sequences: the first one has none.
  for (uint32_t i = 0; i < worker; ++i) {
    request.mutable_request()->mutable_manifest()->add_lengths(10 * worker + i);
  }
  request.set_worker(worker);
  request.set_world_size(options_.workers);
  request.set_run_id(key_.run_id);
  if (start_ > 0) request.mutable_request()->set_preset(absl::StrCat("start ", start_));
  return request;
}

absl::StatusOr<v1::PlanBatchResponse> World::MakePlan(size_t replica,
                                                      const v1::PlanBatchRequest& request) {
  if (!plan_answer_.ok()) return plan_answer_;
  EXPECT_FALSE(request.cost_model().fitted());
  if (options_.invalid) return absl::InvalidArgumentError("no such plan");
  v1::PlanBatchResponse response;
  response.set_planner_version(options_.versions ? absl::StrCat("v", replica) : "v");
  response.set_fingerprint(
      absl::StrCat(response.planner_version(), ":", request.preset(), ":",
                   absl::StrJoin(request.manifest().lengths(), ","), ":",
                   costs_change_nothing_ ? 0 : request.cost_model().per_token()));
  *response.mutable_cost_model_used() = request.cost_model();
  return response;
}

void World::RunOldestTask(size_t replica) {
  std::vector<std::function<void()>>& tasks = replicas_[replica]->tasks;
  ASSERT_FALSE(tasks.empty());
  const std::function<void()> task = std::move(tasks.front());
  tasks.erase(tasks.begin());
  task();
}

size_t World::Join(uint32_t worker, size_t replica, absl::Duration timeout) {
  return Join(Request(worker), replica, timeout);
}

size_t World::Join(v1::JoinBatchRequest request, size_t replica, absl::Duration timeout) {
  auto call = std::make_unique<Call>();
  call->worker = request.worker();
  call->request = request;
  call->key = {.job_id = request.request().job_id(),
               .step = request.request().step(),
               .run_id = request.run_id()};
  call->came_late = runs_seen_.contains(request.run_id()) && request.run_id() != current_run_;
  call->replica = replica;
  call->deadline = clock_.now() + absl::ToChronoNanoseconds(timeout);
  Call* const raw = call.get();
  calls_.push_back(std::move(call));
  raw->ticket = rendezvous(replica).Join(
      std::move(request), /*owner=*/"", raw->deadline,
      [this, raw](Rendezvous::Answer answer) { Answered(*raw, std::move(answer)); });
  return calls_.size() - 1;
}

void World::Cancel(size_t call) {
  calls_[call]->cancelled = true;
  replicas_[calls_[call]->replica]->rendezvous->Cancel(calls_[call]->ticket);
  EXPECT_EQ(calls_[call]->answers, 1);
}

void World::Pause(absl::Duration by) {
  clock_.Advance(by);
  for (const auto& replica : replicas_) {
    if (replica->rendezvous) replica->rendezvous->Tick();
  }
  for (const auto& call : calls_) {
    EXPECT_FALSE(call->waits() && call->deadline <= clock_.now()) << "a deadline is missed";
  }
}

void World::Flush() {
  MakeStore();
  flushed_ = true;
  // It has forgotten the runs too.
  runs_seen_.clear();
  for (const auto& call : calls_) call->came_late = false;
}

void World::Deliver(size_t replica) {
  for (const auto& call : calls_) {
    if (call->replica != replica || !call->answer.ok() || call->delivered) continue;
    call->delivered = true;
    const JoinedPlan& joined = **call->answer;
    rendezvous(replica).Served(
        {.key = joined.key, .incarnation = joined.incarnation, .worker = call->worker});
  }
}

void World::Restart(const std::string& run) {
  ++start_;
  key_.run_id = run;
}

void World::Die(size_t replica) {
  for (const auto& call : calls_) {
    if (call->replica == replica && call->answers == 0) call->lost = true;
  }
  replicas_[replica]->tasks.clear();
  replicas_[replica]->plans.clear();
  replicas_[replica]->hints.clear();
  replicas_[replica]->rendezvous.reset();
}

void World::Retry(size_t call) {
  calls_[call]->retried = true;
  size_t replica = calls_[call]->replica;
  do {
    replica = (replica + 1) % replicas_.size();
  } while (!replicas_[replica]->rendezvous);
  Join(calls_[call]->request, replica);
}

bool World::Fails() {
  if (store_down_) return true;
  if (left_.store_failures == 0 || choices_->Choose(2) == 0) return false;
  --left_.store_failures;
  return true;
}

bool World::MemoryFails() {
  if (left_.memory_failures == 0 || choices_->Choose(2) == 0) return false;
  --left_.memory_failures;
  return true;
}

void World::Overlap() {
  while (left_.overlaps > 0 && depth_ <= 1) {
    std::vector<Event> events;
    AddDueEvents(events);
    const size_t choice = choices_->Choose(events.size() + 1);
    if (choice == events.size()) return;
    --left_.overlaps;
    ++depth_;
    events[choice]();
    --depth_;
  }
}

void World::AddDueEvents(std::vector<Event>& events) {
  if (joined_ < options_.workers) {
    events.push_back([this] {
      const uint32_t worker = joined_++;
      size_t replica = worker % replicas_.size();
      while (!replicas_[replica]->rendezvous) replica = (replica + 1) % replicas_.size();
      Join(worker, replica);
    });
  }
  for (size_t r = 0; r < replicas_.size(); ++r) {
    Replica* const replica = replicas_[r].get();
    for (size_t i = 0; i < replica->tasks.size(); ++i) {
      events.push_back([replica, i] {
        const std::function<void()> task = std::move(replica->tasks[i]);
        replica->tasks.erase(replica->tasks.begin() + static_cast<ptrdiff_t>(i));
        task();
      });
    }
    for (size_t i = 0; i < replica->plans.size() && !planners_held_; ++i) {
      events.push_back([this, replica, r, i] {
        const HeldPlan held = std::move(replica->plans[i]);
        replica->plans.erase(replica->plans.begin() + static_cast<ptrdiff_t>(i));
        held.planned(held.stop.stop_requested() ? absl::CancelledError("stopped")
                                                : MakePlan(r, *held.request));
      });
    }
    for (const auto& hint : replica->hints) {
      events.push_back([replica, hint] {
        replica->hints.erase(hint);
        replica->store->Notify(hint.first, hint.second);
      });
    }
  }
}

void World::AddOptionalEvents(std::vector<Event>& events) {
  if (left_.pauses > 0) {
    events.push_back([this] {
      --left_.pauses;
      Pause(absl::Milliseconds(500));
    });
  }
  if (left_.flushes > 0) {
    events.push_back([this] {
      --left_.flushes;
      Flush();
    });
  }
  // The next start of the job begins once the last one has.
  if (left_.run_changes > 0 && joined_ == options_.workers) {
    events.push_back([this] {
      --left_.run_changes;
      Restart(absl::StrCat("run ", start_ + 1));
      joined_ = 0;
    });
  }
  if (left_.restarts > 0 && joined_ == options_.workers) {
    events.push_back([this] {
      --left_.restarts;
      Restart(key_.run_id);
      joined_ = 0;
    });
  }
  size_t alive = 0;
  for (const auto& replica : replicas_) alive += replica->rendezvous ? 1 : 0;
  for (size_t r = 0; r < replicas_.size(); ++r) {
    Replica* const replica = replicas_[r].get();
    if (left_.deaths > 0 && alive > 1 && replica->rendezvous && depth_ == 0) {
      events.push_back([this, r] {
        --left_.deaths;
        Die(r);
      });
    }
    if (left_.deliveries > 0 && replica->rendezvous && depth_ == 0) {
      events.push_back([this, r] {
        --left_.deliveries;
        Deliver(r);
      });
    }
    if (left_.lost_hints > 0 && !replica->hints.empty()) {
      events.push_back([this, replica] {
        --left_.lost_hints;
        replica->hints.clear();
      });
    }
    if (left_.busy_planners > 0 && !replica->plans.empty()) {
      events.push_back([this, replica] {
        --left_.busy_planners;
        const HeldPlan held = std::move(replica->plans.back());
        replica->plans.pop_back();
        held.planned(absl::ResourceExhaustedError("the planner is busy"));
      });
    }
    if (left_.refusals > 0 && !replica->plans.empty()) {
      events.push_back([this, replica] {
        --left_.refusals;
        const HeldPlan held = std::move(replica->plans.back());
        replica->plans.pop_back();
        held.planned(NoRoomForNow());
      });
    }
  }
  for (size_t c = 0; c < calls_.size(); ++c) {
    if (left_.cancels > 0 && calls_[c]->waits()) {
      events.push_back([this, c] {
        --left_.cancels;
        Cancel(c);
      });
    }
    if (left_.retries > 0 && !calls_[c]->waits() && !calls_[c]->retried) {
      events.push_back([this, c] {
        --left_.retries;
        Retry(c);
      });
    }
  }
}

void World::Explore() {
  for (;;) {
    std::vector<Event> events;
    AddDueEvents(events);
    const bool may_end = events.empty();
    AddOptionalEvents(events);
    const size_t choice = choices_->Choose(events.size() + (may_end ? 1 : 0));
    if (choice == events.size()) return;
    events[choice]();
    if (::testing::Test::HasFailure()) return;
  }
}

void World::Settle() {
  for (;;) {
    std::vector<Event> events;
    // Joins are the test's.
    joined_ = options_.workers;
    AddDueEvents(events);
    if (events.empty()) return;
    events.front()();
  }
}

size_t World::plans_with_planners() const {
  size_t plans = 0;
  for (const auto& replica : replicas_) plans += replica->plans.size();
  return plans;
}

bool World::stop_requested(size_t replica) const {
  for (const HeldPlan& plan : replicas_[replica]->plans) {
    if (!plan.stop.stop_requested()) return false;
  }
  return true;
}

}  // namespace batchplan::testing
