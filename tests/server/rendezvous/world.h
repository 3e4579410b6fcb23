// Workers, replicas and the store that the replicas share, in one thread and with time standing
// still, so that a test decides what happens next and what fails.
//
//   World world({.workers = 2, .replicas = 2}, &choices);
//   world.Explore();     // whatever happens, in the order of the choices
//   world.Finish();      // what must come of it in the end
//
// What breaks a promise of rendezvous.h is a test failure.

#ifndef BATCHPLAN_TESTS_SERVER_RENDEZVOUS_WORLD_H_
#define BATCHPLAN_TESTS_SERVER_RENDEZVOUS_WORLD_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "server/rendezvous/rendezvous.h"
#include "server/store/memory_step_store.h"
#include "tests/server/rendezvous/explorer.h"
#include "tests/server/store/manual_clock.h"

namespace batchplan::testing {

struct WorldOptions {
  uint32_t workers = 2;
  // Worker w joins at replica w % replicas, and retries at the next one.
  size_t replicas = 1;
  // The request asks for fitted coefficients; every look at them finds others.
  bool fitted = false;
  // Every replica's planner has a version of its own, and plans differently.
  bool versions = false;
  // The planner refuses the request.
  bool invalid = false;
  size_t max_waiting = 1000;

  // How often each may happen. A store's call fails before or after it took effect.
  int lost_hints = 0;
  int store_failures = 0;
  // Memory runs out in a call of the store, before or after it took effect.
  int memory_failures = 0;
  int flushes = 0;
  int cancels = 0;
  int deaths = 0;
  int retries = 0;
  int busy_planners = 0;
  // A planner has no room, and says when it will have some.
  int refusals = 0;
  // Half a second passes, and all replicas tick.
  int pauses = 0;
  // Something else happens while a call of the store is under way, after it took effect or before;
  // all of them in one call, or in several.
  int overlaps = 0;
  // Workers come again, as after a restart of their job, all of them: in another run, or with other
  // parts for the same step.
  int run_changes = 0;
  int restarts = 0;
  // A replica hears that the answers given there so far have been sent.
  int deliveries = 0;
  // Replicas remember what they planned, and the plans that they gave out.
  bool remembers = false;
  // One replica plans for all.
  bool shares = false;
};

// How long the store keeps a step.
inline constexpr absl::Duration kWorldTimeToLive = absl::Minutes(10);
inline constexpr absl::Duration kWorldRetention = absl::Minutes(10);

// How long the store believes that a replica plans.
inline constexpr absl::Duration kWorldPlanning = absl::Milliseconds(500);

// What a planner says that is to be asked again after 100 ms.
inline absl::Status NoRoomForNow() { return absl::ResourceExhaustedError("no room for now"); }

class World {
 public:
  // One join. Those of a replica that died are never answered.
  struct Call {
    uint32_t worker;
    size_t replica;
    v1::JoinBatchRequest request;
    StepKey key;
    // A later run of its job had been seen by then.
    bool came_late = false;
    Instant deadline;
    Rendezvous::Ticket ticket = 0;
    int answers = 0;
    Rendezvous::Answer answer = absl::UnknownError("not answered");
    bool cancelled = false;
    bool lost = false;
    bool retried = false;
    bool delivered = false;

    bool waits() const { return answers == 0 && !lost; }
  };

  World(const WorldOptions& options, Choices* choices);
  ~World();

  World(const World&) = delete;
  World& operator=(const World&) = delete;

  // Until nothing is left to happen but what is optional, and the choice is to end.
  void Explore();

  // No more failures: lets time pass beyond all deadlines and lifetimes, and checks what must be so
  // in the end.
  void Finish();

  // For tests that decide themselves. Runs what is with the executors and the planners, and
  // delivers all hints, until nothing is left.
  void Settle();
  // Runs what has been with the executor for longest.
  void RunOldestTask(size_t replica);
  size_t Join(uint32_t worker, size_t replica, absl::Duration timeout = absl::Seconds(10));
  size_t Join(v1::JoinBatchRequest request, size_t replica,
              absl::Duration timeout = absl::Seconds(10));
  void Cancel(size_t call);
  void Die(size_t replica);
  void Pause(absl::Duration by);
  void Flush();
  // The answers given at the replica so far have been sent.
  void Deliver(size_t replica);
  // From here on, the requests are of another start of the job: with other parts; of another run,
  // if that has a name.
  void Restart(const std::string& run = "");
  // All calls of the store fail, while set.
  void SetStoreDown(bool down) { store_down_ = down; }
  // Memory runs out in the store's calls of this name, while set.
  void SetMemoryFailsIn(std::string call) { memory_fails_in_ = std::move(call); }
  // Plans stay with the planners, while set.
  void SetPlannersHeld(bool held) { planners_held_ = held; }
  void SetPlanAnswer(absl::Status status) { plan_answer_ = std::move(status); }
  // Plans are the same whatever the coefficients, while set, and name them nevertheless.
  void SetCostsChangeNothing(bool same) { costs_change_nothing_ = same; }
  void SetLoseHints(bool lose) { lose_hints_ = lose; }

  v1::JoinBatchRequest Request(uint32_t worker) const;
  size_t call_count() const { return calls_.size(); }
  size_t tasks(size_t replica) const { return replicas_[replica]->tasks.size(); }
  const Call& call(size_t index) const { return *calls_[index]; }
  Rendezvous& rendezvous(size_t replica) { return *replicas_[replica]->rendezvous; }
  StepStore& store() { return *store_; }
  // Of the job's current start.
  const StepKey& key() const { return key_; }
  int store_calls() const { return store_calls_; }
  size_t plans_with_planners() const;
  size_t plans_with_planner(size_t replica) const { return replicas_[replica]->plans.size(); }
  // Stops that the planners have been asked for.
  bool stop_requested(size_t replica) const;

 private:
  class ReplicaStore;
  struct HeldPlan {
    std::shared_ptr<const v1::PlanBatchRequest> request;
    std::stop_token stop;
    RendezvousHooks::Planned planned;
  };
  struct Replica {
    std::unique_ptr<ReplicaStore> store;
    std::vector<std::function<void()>> tasks;
    std::vector<HeldPlan> plans;
    std::set<std::pair<StepKey, StepEvent>> hints;
    // Last: destroyed first.
    std::unique_ptr<Rendezvous> rendezvous;
  };
  using Event = std::function<void()>;

  void MakeStore();
  std::unique_ptr<Replica> MakeReplica(size_t index);
  absl::StatusOr<v1::PlanBatchResponse> MakePlan(size_t replica,
                                                 const v1::PlanBatchRequest& request);
  void Answered(Call& call, Rendezvous::Answer answer);
  // Whether the failures that may happen here account for the answer.
  bool IsAccountedFor(const Call& call) const;
  // Whether something may happen that only a later look makes good.
  bool NeedsTime() const;
  void ExpectNobodyWaitsForACompleteStep() const;
  void Retry(size_t call);

  // What can happen now: what is bound to, and what only may.
  void AddDueEvents(std::vector<Event>& events);
  void AddOptionalEvents(std::vector<Event>& events);
  // Within a call of the store: perhaps something else, perhaps a failure.
  void Overlap();
  bool Fails();
  bool MemoryFails();

  const WorldOptions options_;
  WorldOptions left_;
  Choices* const choices_;
  StepKey key_ = {.job_id = "job", .step = 7};
  int start_ = 0;
  ManualClock clock_;
  std::unique_ptr<MemoryStepStore> store_;
  std::vector<std::unique_ptr<Replica>> replicas_;
  std::vector<std::unique_ptr<Call>> calls_;
  uint32_t joined_ = 0;
  // The fingerprints that were recorded, and those that were given out, by incarnation.
  std::set<std::string> recorded_;
  std::map<std::string, std::string> given_out_;
  // The run that the store saw last of those that it had not seen before.
  std::string current_run_;
  std::set<std::string> runs_seen_;
  int fits_ = 0;
  int depth_ = 0;
  int store_calls_ = 0;
  bool flushed_ = false;
  bool store_down_ = false;
  std::string memory_fails_in_;
  bool planners_held_ = false;
  bool lose_hints_ = false;
  bool costs_change_nothing_ = false;
  absl::Status plan_answer_;
};

}  // namespace batchplan::testing

#endif  // BATCHPLAN_TESTS_SERVER_RENDEZVOUS_WORLD_H_
