// How a replica looks at a step that joins wait for there: from what the store has of it to the
// plan that it answers them with. All on the executor's threads, one look at a step at a time.

#include <algorithm>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "server/rendezvous/errors.h"
#include "server/rendezvous/rendezvous.h"
#include "server/rendezvous/rendezvous_effects.h"

namespace batchplan {

namespace {

// Larger plans are made anew in less time than a store that others wait for takes to move them.
constexpr size_t kMaxKeptPlanBytes = 16 << 20;

// What other replicas get of the plan; empty: nothing.
std::string_view PlanToKeep(const JoinedPlan& joined) {
  const bool is_kept = joined.whole.ByteSizeLong() <= kMaxKeptPlanBytes;
  return is_kept ? std::string_view(joined.Serialized()) : std::string_view();
}

}  // namespace

void Rendezvous::Look(const StepKey& key) {
  auto looked = UnlessOutOfMemory([&] { return store_->Progress(key, options_.replica); });
  if (!looked) return EndWithError(key, OutOfMemoryError(key));
  absl::StatusOr<StepProgress>& progress = *looked;
  if (!progress.ok()) return EndWithStoreError(key, progress.status());
  if (progress->current_run) return EndWithError(key, SupersededError(key, *progress->current_run));
  {
    Effects effects(this);
    MutexLock lock(mutex_);
    const auto found = steps_.find(key);
    LocalStep& step = found->second;
    step.store_status = absl::OkStatus();
    bool any_in = false;
    for (const Ticket ticket : step.waiters) {
      Waiter& waiter = waiters_.at(ticket);
      if (waiter.place == Waiter::Place::kOffered) continue;
      const bool arrived = std::binary_search(progress->arrived.begin(), progress->arrived.end(),
                                              waiter.part->worker);
      if (waiter.place == Waiter::Place::kIn && arrived &&
          waiter.incarnation == progress->incarnation) {
        any_in = true;
      } else {
        OfferAgain(ticket, waiter, effects);
      }
    }
    step.progress = *progress;
    if (!progress->complete || !any_in || AwaitsPlan(found, *progress)) {
      return EndLook(found, effects);
    }
  }
  Gather(key, *progress);
}

bool Rendezvous::AwaitsPlan(Steps::iterator step, const StepProgress& progress) {
  const Instant now = clock_();
  if (!options_.shares_plans || progress.outcome || progress.planner.empty() ||
      progress.planner == options_.replica || planned_.Has(step->first, now)) {
    return false;
  }
  LocalStep& local = step->second;
  if (local.awaited != progress.incarnation) {
    local.awaited = progress.incarnation;
    local.patience_ends = Instant::max();
  }
  for (const Ticket ticket : local.waiters) {
    const Waiter& waiter = waiters_.at(ticket);
    // The request is not kept with the plan.
    if (waiter.wants_request) return false;
    local.patience_ends = std::min(local.patience_ends, now + (waiter.deadline - now) / 2);
  }
  return now < local.patience_ends;
}

void Rendezvous::Gather(const StepKey& key, const StepProgress& progress) {
  auto run = std::make_shared<Run>();
  run->key = key;
  run->incarnation = progress.incarnation;
  if (progress.outcome) {
    run->recorded = DecodeOutcome(*progress.outcome);
    run->step->outcome = *progress.outcome;
    if (!run->recorded) {
      return EndWithError(key, UnknownOutcomeError(key, options_.planner_version));
    }
    if (!run->recorded->is_plan()) {
      return EndWithError(key, absl::InvalidArgumentError(run->recorded->invalid_argument));
    }
    if (auto kept = KeptPlan(*run); kept != nullptr) return EndWithAnswer(*run, kept);
  } else if (IsPlanned(key)) {
    // What was planned before the store lost it is not planned anew.
    return EndWithStoreError(key, Restore(key));
  }
  auto parts = UnlessOutOfMemory([&] { return store_->Parts(key); });
  if (!parts) return EndWithError(key, OutOfMemoryError(key));
  if (!parts->ok()) return EndWithStoreError(key, parts->status());
  // The step began anew since.
  if ((*parts)->incarnation != progress.incarnation) {
    return EndWithStoreError(key, absl::OkStatus());
  }
  run->step->contents = std::move((*parts)->contents);
  {
    Effects effects(this);
    MutexLock lock(mutex_);
    const auto found = steps_.find(key);
    // All of those that are in have the same terms, or some are not in any more.
    for (const Ticket ticket : found->second.waiters) {
      const Waiter& waiter = waiters_.at(ticket);
      if (waiter.place == Waiter::Place::kIn && waiter.incarnation == run->incarnation) {
        run->step->terms = waiter.part->terms;
      }
    }
    if (run->step->terms.empty()) return EndLook(found, effects);
    found->second.run = run;
  }
  auto whole = UnlessOutOfMemory([&] {
    return AssembleRequest(key, run->step->terms, run->step->contents, options_.max_sequences);
  });
  if (!whole) return EndWithAnswer(*run, OutOfMemoryError(key));
  if (absl::IsAborted(whole->status())) return EndWithLoss(key);
  if (!whole->ok()) return Conclude(run, whole->status());
  run->whole = **std::move(whole);
  run->fitted = run->whole.request->cost_model().fitted();
  const auto costs = UnlessOutOfMemory([&] { return SetCosts(*run); });
  if (!costs) return EndWithAnswer(*run, OutOfMemoryError(key));
  if (absl::IsUnavailable(*costs)) return EndWithStoreError(key, *costs);
  if (!costs->ok()) return EndWithAnswer(*run, *costs);
  StartPlan(run);
}

std::shared_ptr<const JoinedPlan> Rendezvous::KeptPlan(const Run& run) {
  bool request_wanted = false;
  std::shared_ptr<const JoinedPlan> given;
  {
    MutexLock lock(mutex_);
    for (const Ticket ticket : steps_.at(run.key).waiters) {
      request_wanted = request_wanted || waiters_.at(ticket).wants_request;
    }
    given = given_.Find(run.key, run.incarnation, clock_());
  }
  if (given != nullptr && (given->request != nullptr || !request_wanted)) return given;
  if (!options_.shares_plans || request_wanted) return nullptr;
  auto joined = std::make_shared<JoinedPlan>();
  const auto read = UnlessOutOfMemory([&] {
    absl::StatusOr<std::optional<std::string>> plan = store_->Plan(run.key, run.incarnation);
    return plan.ok() && *plan && joined->Read(**std::move(plan));
  });
  // Without it the plan is made here.
  if (!read || !*read || joined->plan().fingerprint() != run.recorded->fingerprint ||
      joined->plan().planner_version() != options_.planner_version) {
    return nullptr;
  }
  joined->key = run.key;
  joined->incarnation = run.incarnation;
  KeepGiven(joined);
  return joined;
}

void Rendezvous::KeepGiven(const std::shared_ptr<const JoinedPlan>& joined) {
  if (options_.max_given_bytes == 0) return;
  // Where memory runs out it is not kept.
  UnlessOutOfMemory([&] {
    GivenPlans::Given given = {.joined = joined, .bytes = joined->bytes(), .expiry = {}};
    GivenPlans::Plans dropped;
    MutexLock lock(mutex_);
    dropped = given_.Keep(std::move(given), clock_());
    return true;
  });
}

std::shared_ptr<JoinedPlan> Rendezvous::JoinedOf(const Run& run, v1::PlanBatchResponse plan) {
  auto joined = std::make_shared<JoinedPlan>();
  joined->key = run.key;
  joined->incarnation = run.incarnation;
  *joined->whole.mutable_plan() = std::move(plan);
  joined->whole.mutable_worker_offsets()->Add(run.whole.worker_offsets.begin(),
                                              run.whole.worker_offsets.end());
  *joined->whole.mutable_item_sequences() =
      ItemSequencesOf(joined->plan(), run.whole.request->manifest());
  joined->request = run.whole.request;
  return joined;
}

bool Rendezvous::IsForOthers(const Run& run) const {
  if (!options_.shares_plans) return false;
  MutexLock lock(mutex_);
  return steps_.at(run.key).waiters.size() < run.step->contents.size();
}

// Puts the coefficients in the place of CostModel.fitted: those that are recorded, or today's.
absl::Status Rendezvous::SetCosts(Run& run) {
  if (!run.fitted) return absl::OkStatus();
  v1::CostModel* costs = run.whole.request->mutable_cost_model();
  if (run.recorded && run.recorded->fitted_costs) {
    *costs = *run.recorded->fitted_costs;
    return absl::OkStatus();
  }
  absl::StatusOr<v1::CostModel> today = hooks_.costs(*run.whole.request);
  if (!today.ok()) return today.status();
  *costs = *std::move(today);
  return absl::OkStatus();
}

void Rendezvous::StartPlan(const std::shared_ptr<Run>& run) {
  {
    MutexLock lock(mutex_);
    ++plans_;
  }
  hooks_.plan(run->whole.request, run->stop.get_token(), [this, run](PlanResult result) {
    auto shared = std::make_shared<PlanResult>(std::move(result));
    hooks_.executor([this, run, shared] { Conclude(run, std::move(*shared)); });
  });
}

void Rendezvous::PlanLater(const std::shared_ptr<Run>& run, const absl::Status& refusal,
                           absl::Duration delay) {
  Effects effects(this);
  MutexLock lock(mutex_);
  const auto found = steps_.find(run->key);
  if (found->second.waiters.empty()) return EndLook(found, effects);
  found->second.ask_again = clock_() + absl::ToChronoNanoseconds(delay);
  found->second.refusal = refusal;
}

void Rendezvous::Conclude(const std::shared_ptr<Run>& run, PlanResult result) {
  const StepKey& key = run->key;
  if (!result.ok() && !absl::IsInvalidArgument(result.status())) {
    // Those who came after the planner was told to stop have not been planned for.
    if (run->stop.stop_requested()) return EndWithStoreError(key, absl::OkStatus());
    const std::optional<absl::Duration> delay =
        hooks_.retry_after ? hooks_.retry_after(result.status()) : std::nullopt;
    if (delay) return PlanLater(run, result.status(), *delay);
    return EndWithAnswer(*run, result.status());
  }
  std::shared_ptr<JoinedPlan> joined;
  Outcome mine = {.planner_version = options_.planner_version,
                  .fingerprint = "",
                  .fitted_costs = std::nullopt,
                  .invalid_argument = std::string(result.status().message())};
  if (result.ok()) {
    mine.planner_version = result->planner_version();
    mine.fingerprint = result->fingerprint();
    if (run->fitted) mine.fitted_costs = run->whole.request->cost_model();
    const auto made = UnlessOutOfMemory([&] { return JoinedOf(*run, *std::move(result)); });
    if (!made) return EndWithAnswer(*run, OutOfMemoryError(key));
    joined = *made;
  }
  if (!run->recorded) {
    const bool for_others = joined != nullptr && IsForOthers(*run);
    const auto stands = UnlessOutOfMemory([&] {
      return store_->PutOutcome(key, run->incarnation,
                                {.bytes = EncodeOutcome(mine),
                                 .refusal = !mine.is_plan(),
                                 .plan = for_others ? PlanToKeep(*joined) : ""});
    });
    if (!stands) return EndWithAnswer(*run, OutOfMemoryError(key));
    if (!stands->ok()) return EndWithStoreError(key, stands->status());
    run->recorded = DecodeOutcome((*stands)->bytes);
    run->step->outcome = (*stands)->bytes;
    run->recorded_here = (*stands)->written;
    if (!run->recorded) {
      return EndWithAnswer(*run, UnknownOutcomeError(key, options_.planner_version));
    }
  }
  const Outcome& recorded = *run->recorded;
  if (!recorded.is_plan()) {
    return EndWithAnswer(*run, absl::InvalidArgumentError(recorded.invalid_argument));
  }
  // Another replica was first, with other coefficients: the plan is the one made with those, also
  // where it only names them and is the same otherwise.
  if (run->fitted && recorded.fitted_costs &&
      recorded.fitted_costs->SerializeAsString() !=
          run->whole.request->cost_model().SerializeAsString()) {
    // The planner may still hold the request that it was given.
    const auto copied = UnlessOutOfMemory(
        [&] { return std::make_shared<v1::PlanBatchRequest>(*run->whole.request); });
    if (!copied) return EndWithAnswer(*run, OutOfMemoryError(key));
    run->whole.request = *copied;
    *run->whole.request->mutable_cost_model() = *recorded.fitted_costs;
    return StartPlan(run);
  }
  if (joined != nullptr && recorded.fingerprint == mine.fingerprint) {
    return EndWithPlan(*run, joined);
  }
  EndWithAnswer(*run, OtherPlannerError(key, recorded, mine));
}

void Rendezvous::EndWithPlan(const Run& run, const std::shared_ptr<const JoinedPlan>& joined) {
  KeepGiven(joined);
  // Where memory runs out it is not remembered, and nobody is told.
  UnlessOutOfMemory([&] {
    {
      MutexLock lock(mutex_);
      planned_.Remember(run.key, run.step, clock_());
    }
    if (!run.recorded_here || !hooks_.recorded) return true;
    absl::StatusOr<v1::PlanBatchRequest> agreed = AgreedRequest(run.key, run.step->terms);
    if (agreed.ok()) hooks_.recorded(*std::move(agreed), joined);
    return true;
  });
  EndWithAnswer(run, joined);
}

void Rendezvous::EndWithAnswer(const Run& run, const Answer& answer) {
  Effects effects(this);
  MutexLock lock(mutex_);
  const auto found = steps_.find(run.key);
  const std::set<Ticket> waiters = found->second.waiters;
  for (const Ticket ticket : waiters) {
    Waiter& waiter = waiters_.at(ticket);
    if (waiter.place != Waiter::Place::kIn) continue;
    if (waiter.incarnation != run.incarnation) {
      // The step began anew meanwhile, for one of them.
      waiter.place = Waiter::Place::kOut;
      found->second.soon = true;
    } else if (answer.ok() && (*answer)->request == nullptr && waiter.wants_request) {
      // It came meanwhile; what it wants is not kept.
      found->second.again = true;
    } else {
      Reply(ticket, answer, effects);
    }
  }
  EndLook(found, effects);
}

void Rendezvous::EndWithError(const StepKey& key, const absl::Status& status) {
  Effects effects(this);
  MutexLock lock(mutex_);
  const auto found = steps_.find(key);
  const std::set<Ticket> waiters = found->second.waiters;
  for (const Ticket ticket : waiters) {
    if (waiters_.at(ticket).place != Waiter::Place::kOffered) Reply(ticket, status, effects);
  }
  EndLook(found, effects);
}

// OK and NotFound are no failures of the store.
void Rendezvous::EndWithStoreError(const StepKey& key, const absl::Status& status) {
  Effects effects(this);
  MutexLock lock(mutex_);
  const auto found = steps_.find(key);
  const bool failed = !status.ok() && !absl::IsNotFound(status);
  found->second.store_status = failed ? status : absl::OkStatus();
  found->second.soon = !failed;
  EndLook(found, effects);
}

void Rendezvous::EndWithLoss(const StepKey& key) {
  Effects effects(this);
  MutexLock lock(mutex_);
  const auto found = steps_.find(key);
  for (const Ticket ticket : found->second.waiters) {
    Waiter& waiter = waiters_.at(ticket);
    if (waiter.place == Waiter::Place::kIn) waiter.place = Waiter::Place::kOut;
  }
  found->second.soon = true;
  EndLook(found, effects);
}

}  // namespace batchplan
