// Where the workers of a step meet: each brings its part of a batch, and once the last part is in,
// all are answered with one plan. One Rendezvous a replica; replicas share a StepStore.
//
//   Rendezvous rendezvous(options, &store, clock, {.executor = ..., .plan = ..., .costs = ...});
//   Rendezvous::Ticket ticket = rendezvous.Join(request, deadline, [](Rendezvous::Answer answer) {
//     ... answer the call ...
//   });
//   rendezvous.Cancel(ticket);   // if the caller is gone
//   rendezvous.Tick();           // every 50 ms or so, by a thread of the owner's
//   rendezvous.Shutdown();
//
// What holds. Every join is answered exactly once, at the latest by the first Tick after its
// deadline. No plan is given out before the step's outcome is recorded in the store, where the
// first writer wins; a replica that finds an outcome makes the plan with the coefficients recorded
// there and gives it out only if its fingerprint is the recorded one. A step that begins anew is
// another incarnation, and the plan of one never answers a join of another. So no two workers of an
// incarnation ever get different plans, and a worker that timed out, or whose replica died, gets
// the same plan when it retries. (Except if the store loses its records, the cost model is fitted,
// and either all replicas that planned the step are gone or all workers come again before it is put
// back: the step may then be planned anew with newer coefficients.)
//
// How it goes. A join's part is offered to the store by the executor. The replica that brings the
// last part, and every replica that the store's listener tells of it, looks at the step. So does
// Tick, once a poll_interval, because notifications are only hints, and so that the store knows
// that somebody waits. A replica whose own joins wait for a complete step fetches the parts, plans,
// and records: once, for all of its joins that wait then. A part that the store does not have (it
// could not be reached or was restarted, or the step expired) is offered again as long as its
// worker waits.
//
// Where replicas share plans, the step's planner (step_store.h) leaves the plan with the outcome,
// and the others answer their joins with it. They wait for no longer than half the time that their
// first join has left, and then plan themselves: the plan is the same. A planner that is slow or
// dead is replaced after StepStoreOptions.planning, by the next replica that looks at the step.
//
// A step that was planned is remembered. If the store then says that somebody waits for it and that
// parts are missing, it has lost them, and the step is put back with its outcome.
//
// A planner that has no room is asked again, for the same request, when it says that it will have
// room; only joins whose deadline passes meanwhile are told that it had none.
//
// Threads. Thread-safe; only the constructor and the destructor block. `done` is called on any
// thread, also from within Join, Cancel, Tick and Shutdown, with no lock held. Before this is
// destroyed, Shutdown must have returned, and all calls given to the executor and the plan hook
// must have run or been dropped.
//
// A plan that joins were answered with is kept for those that ask again, up to max_given_bytes:
// otherwise it is read from the store, or made, anew.
//
// Cost. One call of the store for a join; for a step, on each replica with joins of it, one or two
// looks, one fetch of all parts, one plan and one call that says who was served; with plans that
// are shared a fetch of the plan in place of the parts and of planning. Waiting joins keep their
// parts in memory, and planned steps theirs, up to max_planned_bytes.

#ifndef BATCHPLAN_SERVER_RENDEZVOUS_RENDEZVOUS_H_
#define BATCHPLAN_SERVER_RENDEZVOUS_RENDEZVOUS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "batchplan/v1/batch_planner.pb.h"
#include "server/base/clock.h"
#include "server/base/mutex.h"
#include "server/rendezvous/given_plans.h"
#include "server/rendezvous/joined_plan.h"
#include "server/rendezvous/outcome.h"
#include "server/rendezvous/part.h"
#include "server/rendezvous/planned_steps.h"
#include "server/store/step_store.h"

namespace batchplan {

struct RendezvousOptions {
  // Joins that may wait at the same time; more are refused. --max_waiting_joins.
  size_t max_waiting = 65536;
  // Sequences that a step may have, over all workers. --max_sequences.
  uint64_t max_sequences = std::numeric_limits<int32_t>::max();
  // How often a step with waiting joins is looked at in the store without a hint.
  absl::Duration poll_interval = absl::Seconds(1);
  // How long before a join's deadline its step is looked at, to know which workers are missing.
  absl::Duration last_look = absl::Milliseconds(150);
  // PlanBatchResponse.planner_version of this replica's planner.
  std::string planner_version;
  // The name of this replica, unique among those that share the store.
  std::string replica = "replica";
  // The most bytes of remembered steps, and for how long they are remembered. 0: none are.
  uint64_t max_planned_bytes = 0;
  absl::Duration planned_lifetime = absl::Minutes(10);
  // The most bytes of plans that are kept for workers that ask again, as long. 0: none are.
  uint64_t max_given_bytes = 0;
  // Whether one replica plans for all, and the others wait for it.
  bool shares_plans = false;
};

// A worker that has been sent the plan of its step.
struct ServedWorker {
  StepKey key;
  std::string incarnation;
  uint32_t worker = 0;
};

struct RendezvousHooks {
  // Runs a function, which may block on the store, soon and on another thread: never from within
  // the call.
  std::function<void(std::function<void()>)> executor;

  // Plans a whole request and then calls back, exactly once and on any thread; should give up once
  // a stop is requested, when nobody waits for the plan any more. InvalidArgument means that the
  // request can't be planned, and becomes the step's outcome. Every other error goes to the joins
  // that wait here, who may retry, unless retry_after says otherwise.
  using Planned = std::function<void(absl::StatusOr<v1::PlanBatchResponse>)>;
  std::function<void(std::shared_ptr<const v1::PlanBatchRequest>, std::stop_token, Planned)> plan;

  // After how long a plan that ended with this error is asked for again. None, or no hook: never.
  std::function<std::optional<absl::Duration>(const absl::Status&)> retry_after;

  // The present coefficients for CostModel.fitted of a request, which has all sequences of the
  // step. Called by the executor's functions; may block. An error goes to the joins that wait here.
  std::function<absl::StatusOr<v1::CostModel>(const v1::PlanBatchRequest& request)> costs;

  // Called with a step's plan by the replica that recorded it, and so once, and with the request
  // that its workers agree on, which has no sequences. Called by the executor's functions. May be
  // null.
  std::function<void(v1::PlanBatchRequest, const std::shared_ptr<const JoinedPlan>&)> recorded =
      nullptr;
};

class Rendezvous {
 public:
  // Of one join; never 0.
  using Ticket = uint64_t;
  using Answer = absl::StatusOr<std::shared_ptr<const JoinedPlan>>;
  using Done = std::function<void(Answer)>;

  struct Counts {
    // The joins that wait now, and the steps that they wait for: as metrics show them.
    size_t waiting = 0;
    size_t steps = 0;
    // Since the start: joins refused for max_waiting, which batchplan_joins_total counts among the
    // refused ones, and plans asked for. For tests; not metrics of their own.
    uint64_t refused = 0;
    uint64_t plans = 0;
  };

  // Becomes the listener of `store`, which must outlive this.
  Rendezvous(RendezvousOptions options, StepStore* store, Clock clock, RendezvousHooks hooks);
  // Listens no more.
  ~Rendezvous();

  Rendezvous(const Rendezvous&) = delete;
  Rendezvous& operator=(const Rendezvous&) = delete;

  // Joins a step, counted for `owner` (step_store.h), and has `done` called with the plan or
  //   InvalidArgument      the part is not valid, has other terms than the step's first one, or the
  //                        whole request can't be planned
  //   AlreadyExists        the worker's part is in already, with other content or terms
  //   FailedPrecondition   a later run of the job, which is named, has superseded the join's
  //   DeadlineExceeded     naming the workers that are missing
  //   ResourceExhausted    too many joins wait, the store is full, or the planner is, or memory ran
  //                        out in a call of the store or for the whole request
  //   Unavailable          the store could not be reached until the deadline, this server shuts
  //                        down, or it is of another version than the one that planned the step.
  //                        Retry
  //   Cancelled            by Cancel
  // or another error of the planner's. A part stays when its join is answered with an error.
  Ticket Join(v1::JoinBatchRequest request, std::string owner, Instant deadline, Done done);

  // Answers a join now, unless it has been answered. Its part stays, and others wait on.
  void Cancel(Ticket ticket);

  // Says that a worker has been sent its plan. The store is told by the next Tick, or before a part
  // is offered to the same step; if that fails, the step is kept as if the worker had not been
  // served.
  void Served(const ServedWorker& served);

  // Answers the joins whose deadline has passed, and looks after the others.
  void Tick();

  // Answers all joins, and those that still come, with Unavailable.
  void Shutdown();

  Counts counts() const;

 private:
  // A join that is not answered yet.
  struct Waiter {
    StepKey key;
    std::shared_ptr<const StepPart> part;
    Instant deadline;
    Done done;
    // With the plan, it needs what was planned.
    bool wants_request = false;
    // Its part is on its way to the store, in the store as far as is known, or lost.
    enum class Place { kOffered, kIn, kOut } place = Place::kOffered;
    // If it is in, the incarnation of the step.
    std::string incarnation = {};
  };

  // One plan being made, or made.
  struct Run {
    StepKey key;
    std::string incarnation;
    // Its outcome once that is recorded.
    std::shared_ptr<WholeStep> step = std::make_shared<WholeStep>();
    WholeRequest whole;
    // Whether whole.request asked for fitted coefficients, which it then has.
    bool fitted = false;
    // The recorded outcome, once it is known, and whether it is this run's.
    std::optional<Outcome> recorded;
    bool recorded_here = false;
    std::stop_source stop;
  };

  // A step that joins wait for here.
  struct LocalStep {
    std::set<Ticket> waiters;
    // Whether the executor has a function that looks at the step, or the planner a plan: at most
    // one at a time.
    bool busy = false;
    // Look again when it ends.
    bool again = false;
    std::shared_ptr<Run> run;
    // If the planner has no room for the run: when it is asked again, and its error. The step
    // counts as busy meanwhile.
    std::optional<Instant> ask_again;
    absl::Status refusal;
    // By Ticks.
    Instant next_look;
    // Look by the next Tick once this look ends: not at once, so that a store that keeps losing the
    // step is not asked without a pause.
    bool soon = false;
    // The result of the last look; none: no look yet.
    std::optional<StepProgress> progress;
    // The incarnation of the step whose plan another replica makes, and how long joins here wait
    // for that.
    std::string awaited;
    Instant patience_ends;
    // The store's last answer for the step, without the error codes that are answers.
    absl::Status store_status;
  };
  using Steps = std::map<StepKey, LocalStep>;

  class Effects;

  using PlanResult = absl::StatusOr<v1::PlanBatchResponse>;

  // On the executor's threads, without mutex_.
  void Offer(Ticket ticket, const StepKey& key, const StepPart& part, bool first);
  void Look(const StepKey& key);
  void Gather(const StepKey& key, const StepProgress& progress);
  void StartPlan(const std::shared_ptr<Run>& run);
  void PlanLater(const std::shared_ptr<Run>& run, const absl::Status& refusal,
                 absl::Duration delay);
  void Conclude(const std::shared_ptr<Run>& run, PlanResult result);
  absl::Status SetCosts(Run& run);
  // The plan that joins were given before, here or by another replica; null if it is not kept, or
  // not with the request that a join wants.
  std::shared_ptr<const JoinedPlan> KeptPlan(const Run& run);
  void KeepGiven(const std::shared_ptr<const JoinedPlan>& joined);
  // The plan as the joins get it.
  static std::shared_ptr<JoinedPlan> JoinedOf(const Run& run, v1::PlanBatchResponse plan);
  // Whether joins wait elsewhere for the plan.
  bool IsForOthers(const Run& run) const;
  void TellServed(const StepKey& key);
  void Leave(const StepKey& key);
  bool IsPlanned(const StepKey& key) const;
  // OK unless the store fails.
  absl::Status Restore(const StepKey& key);
  // Ends a look. With a plan or an answer for the joins whose parts `run` has; with an error for
  // all joins except those whose parts are on their way; or without an answer, because the store
  // failed.
  void EndWithPlan(const Run& run, const std::shared_ptr<const JoinedPlan>& joined);
  void EndWithAnswer(const Run& run, const Answer& answer);
  void EndWithError(const StepKey& key, const absl::Status& status);
  void EndWithStoreError(const StepKey& key, const absl::Status& status);
  // All joins whose parts seemed to be in offer them again.
  void EndWithLoss(const StepKey& key);

  void Hint(const StepKey& key, Effects& effects) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Whether another replica makes the plan, and still has time for it.
  bool AwaitsPlan(Steps::iterator step, const StepProgress& progress)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void EndLook(Steps::iterator step, Effects& effects) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ScheduleLook(LocalStep& step) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void OfferAgain(Ticket ticket, Waiter& waiter, Effects& effects)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Reply(Ticket ticket, Answer answer, Effects& effects) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status TimeoutError(const Waiter& waiter) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status IncompleteError(const Waiter& waiter) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const RendezvousOptions options_;
  StepStore* const store_;
  const Clock clock_;
  const RendezvousHooks hooks_;

  mutable Mutex mutex_;
  bool shutting_down_ ABSL_GUARDED_BY(mutex_) = false;
  Ticket last_ticket_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<Ticket, Waiter> waiters_ ABSL_GUARDED_BY(mutex_);
  std::set<std::pair<Instant, Ticket>> deadlines_ ABSL_GUARDED_BY(mutex_);
  // Steps with waiters, and busy ones.
  Steps steps_ ABSL_GUARDED_BY(mutex_);
  PlannedSteps planned_ ABSL_GUARDED_BY(mutex_);
  GivenPlans given_ ABSL_GUARDED_BY(mutex_);
  // Workers that the store is yet to be told of, by step and incarnation.
  std::map<std::pair<StepKey, std::string>, std::vector<uint32_t>> served_ ABSL_GUARDED_BY(mutex_);
  uint64_t refused_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t plans_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_RENDEZVOUS_RENDEZVOUS_H_
