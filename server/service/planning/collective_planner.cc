#include "server/service/planning/collective_planner.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/planner/make_plan.h"
#include "server/service/admission/request_limits.h"
#include "server/service/admission/rpc_status.h"
#include "server/service/planning/job_fits.h"
#include "server/service/planning/plan_observers.h"

namespace batchplan {
namespace {

using std::chrono::steady_clock;

// The memory for steps that a replica planned and keeps in case the store forgets them.
constexpr uint64_t kMaxPlannedBytes = 128 << 20;

// The memory for plans that workers may ask for again.
constexpr uint64_t kMaxGivenBytes = 64 << 20;

constexpr absl::Duration kTick = absl::Milliseconds(50);

// The share of a caller's time that is reserved for the answer's way back, at most kLongestMargin.
constexpr int kMarginPart = 10;
constexpr absl::Duration kLongestMargin = absl::Milliseconds(500);

absl::Duration TimeFor(const v1::JoinBatchRequest& request, Instant deadline,
                       absl::Duration longest_wait) {
  absl::Duration wait = longest_wait;
  if (request.has_timeout()) {
    wait = std::min(wait, absl::Seconds(request.timeout().seconds()) +
                              absl::Nanoseconds(request.timeout().nanos()));
  }
  if (deadline != Instant::max()) {
    const absl::Duration left = absl::FromChrono(deadline - steady_clock::now());
    wait = std::min(wait, left - std::min(left / kMarginPart, kLongestMargin));
  }
  return wait;
}

// A plan in the pool's queue. It leaves the queue when nobody waits for it any more. The pool's
// task owns it.
class QueuedPlan : public std::enable_shared_from_this<QueuedPlan> {
 public:
  QueuedPlan(PlanningPool* pool, RendezvousHooks::Planned planned)
      : pool_(pool), planned_(std::move(planned)) {}

  // Calls back once with Cancelled when `stop` is requested, unless the pool has begun or ended the
  // task.
  void LeaveOn(const std::stop_token& stop, uint64_t ticket) {
    ticket_ = ticket;
    leave_.emplace(stop, Leave{this});
  }

  void Planned(absl::StatusOr<v1::PlanBatchResponse> result) const { planned_(std::move(result)); }

 private:
  struct Leave {
    QueuedPlan* plan;
    void operator()() const { plan->LeaveQueue(); }
  };

  void LeaveQueue() {
    // The pool's reference ends with the task.
    const std::shared_ptr<QueuedPlan> self = weak_from_this().lock();
    if (self == nullptr || !pool_->Remove(ticket_)) return;
    Planned(absl::CancelledError("nobody waits for the plan any more"));
  }

  PlanningPool* const pool_;
  const RendezvousHooks::Planned planned_;
  uint64_t ticket_ = 0;
  // The last member, so that it ends before what it uses.
  std::optional<std::stop_callback<Leave>> leave_;
};

// If the pool refused the request for lack of room: when it expects to have room.
std::optional<absl::Duration> RoomAfter(const absl::Status& status) {
  const std::optional<absl::Duration> delay =
      absl::IsResourceExhausted(status) ? RetryAfter(status) : std::nullopt;
  return delay && *delay >= absl::ZeroDuration() ? delay : std::nullopt;
}

}  // namespace

CollectivePlanner::CollectivePlanner(const CollectivePlannerOptions& options,
                                     const CollectiveStore& store, JobFits* fits,
                                     StoreThreads* store_threads, PlanningPool* pool,
                                     const PlanBatchConfig& config)
    : options_(options),
      memory_(store.memory),
      fits_(fits),
      store_threads_(store_threads),
      pool_(pool),
      config_(config),
      rendezvous_(
          {.max_waiting = options.max_waiting_joins,
           .max_sequences = options.max_sequences,
           .planner_version = std::string(PlannerVersion()),
           .replica = options.replica,
           .max_planned_bytes = store.memory == nullptr ? kMaxPlannedBytes : 0,
           .planned_lifetime = options.step_retention,
           .max_given_bytes = kMaxGivenBytes,
           .shares_plans = store.memory == nullptr},
          store.steps, [] { return steady_clock::now(); }, Hooks()),
      ticker_(std::in_place, kTick, [this] { Tick(); }) {}

CollectivePlanner::~CollectivePlanner() { Shutdown(); }

Rendezvous::Ticket CollectivePlanner::Join(v1::JoinBatchRequest request, std::string owner,
                                           Instant deadline, Rendezvous::Done done) {
  const absl::Duration wait = TimeFor(request, deadline, options_.longest_wait);
  const Instant start = steady_clock::now();
  {
    MutexLock lock(joiners_mutex_);
    Joiners& joiners = joiners_[request.request().job_id()];
    if (joiners.joins++ == 0) joiners.owner = owner;
  }
  Rendezvous::Done counted = [this, job_id = request.request().job_id(),
                              metrics = config_.observers.metrics, start,
                              done = std::move(done)](const Rendezvous::Answer& answer) {
    const std::chrono::duration<double> seconds = steady_clock::now() - start;
    EndJoin(job_id);
    metrics->RecordJoin(answer.status(), seconds.count());
    done(answer);
  };
  return rendezvous_.Join(std::move(request), std::move(owner),
                          start + absl::ToChronoNanoseconds(wait), std::move(counted));
}

std::string CollectivePlanner::OwnerOfPlan(const std::string& job_id) {
  MutexLock lock(joiners_mutex_);
  const auto joiners = joiners_.find(job_id);
  return joiners == joiners_.end() ? "" : joiners->second.owner;
}

void CollectivePlanner::EndJoin(const std::string& job_id) {
  MutexLock lock(joiners_mutex_);
  const auto joiners = joiners_.find(job_id);
  if (--joiners->second.joins == 0) joiners_.erase(joiners);
}

void CollectivePlanner::Shutdown() {
  rendezvous_.Shutdown();
  ticker_.reset();
}

void CollectivePlanner::Tick() {
  rendezvous_.Tick();
  const Rendezvous::Counts here = rendezvous_.counts();
  config_.observers.metrics->RecordJoins({.waiting = here.waiting, .steps = here.steps});
  if (memory_ != nullptr) {
    const MemoryStepStore::Counts held = memory_->counts();
    config_.observers.metrics->RecordStore(
        {.steps = held.steps, .parts = held.parts, .bytes = held.bytes});
  }
}

RendezvousHooks CollectivePlanner::Hooks() {
  return {
      .executor =
          [this](std::function<void()> function) { store_threads_->Submit(std::move(function)); },
      .plan = [this](const std::shared_ptr<const v1::PlanBatchRequest>& request,
                     const std::stop_token& stop,
                     const RendezvousHooks::Planned& planned) { Plan(request, stop, planned); },
      .retry_after = RoomAfter,
      .costs =
          [this](const v1::PlanBatchRequest& request) { return FittedCostModel(fits_, request); },
      .recorded =
          [this](v1::PlanBatchRequest request, const std::shared_ptr<const JoinedPlan>& joined) {
            ObserveJoinedPlan(config_.observers,
                              std::make_shared<const v1::PlanBatchRequest>(std::move(request)),
                              joined);
          },
  };
}

void CollectivePlanner::Plan(const std::shared_ptr<const v1::PlanBatchRequest>& request,
                             const std::stop_token& stop, const RendezvousHooks::Planned& planned) {
  const auto plan = [this, request, stop]() -> absl::StatusOr<v1::PlanBatchResponse> {
    v1::PlanBatchResponse response;
    const absl::Status status = CatchExceptions(
        [&] { return PlanBatch(config_, *request, Caller{.stop = stop}, &response); });
    if (!status.ok()) return status;
    return response;
  };
  const RequestOutline outline = OutlineOf(*request);
  // Checks the parts together; each alone was within the limits.
  const absl::Status within = CheckLimits(outline, {.max_sequences = options_.max_sequences});
  if (!within.ok()) return planned(within);
  std::shared_ptr<QueuedPlan> queued;
  absl::StatusOr<uint64_t> ticket = absl::UnknownError("");
  const absl::Status submitted = CatchExceptions([&] {
    queued = std::make_shared<QueuedPlan>(pool_, planned);
    ticket = pool_->Submit({
        .owner = OwnerOfPlan(request->job_id()),
        .job = request->job_id(),
        .effort = outline.effort,
        .cost = CostOf(outline),
        .run = [plan, queued] { queued->Planned(plan()); },
        .refuse = [queued](const absl::Status& refusal) { queued->Planned(refusal); },
    });
    return ticket.status();
  });
  if (!submitted.ok()) return planned(submitted);
  queued->LeaveOn(stop, *ticket);
}

}  // namespace batchplan
