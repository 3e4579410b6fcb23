#include "server/rendezvous/rendezvous.h"

#include <algorithm>
#include <utility>

#include "server/rendezvous/errors.h"
#include "server/rendezvous/part.h"
#include "server/rendezvous/rendezvous_effects.h"

namespace batchplan {

Rendezvous::Rendezvous(RendezvousOptions options, StepStore* store, Clock clock,
                       RendezvousHooks hooks)
    : options_(std::move(options)),
      store_(store),
      clock_(std::move(clock)),
      hooks_(std::move(hooks)),
      planned_(options_.max_planned_bytes, options_.planned_lifetime),
      given_(options_.max_given_bytes, options_.planned_lifetime) {
  store_->SetListener([this](const StepKey& key, StepEvent event) {
    Effects effects(this);
    MutexLock lock(mutex_);
    if (event == StepEvent::kChanged) {
      Hint(key, effects);
    } else if (planned_.Has(key, clock_())) {
      effects.Execute([this, key] { Restore(key).IgnoreError(); });
    }
  });
}

Rendezvous::~Rendezvous() { store_->SetListener(nullptr); }

Rendezvous::Ticket Rendezvous::Join(v1::JoinBatchRequest request, std::string owner,
                                    Instant deadline, Done done) {
  const absl::Status valid = ValidateJoin(request);
  StepKey key = StepKeyOf(request);
  const bool wants_request = request.return_request();
  std::shared_ptr<StepPart> part;
  if (valid.ok()) {
    part = std::make_shared<StepPart>(MakePart(std::move(request)));
    part->waits_at = options_.replica;
    part->owner = std::move(owner);
  }

  Effects effects(this);
  MutexLock lock(mutex_);
  const Ticket ticket = ++last_ticket_;
  if (!valid.ok()) {
    effects.Reply(std::move(done), valid);
  } else if (shutting_down_) {
    effects.Reply(std::move(done), ShuttingDownError());
  } else if (waiters_.size() >= options_.max_waiting) {
    ++refused_;
    effects.Reply(std::move(done), TooManyJoinsError(options_.max_waiting));
  } else {
    deadlines_.emplace(deadline, ticket);
    LocalStep& step = steps_[key];
    if (step.waiters.empty() && !step.busy) ScheduleLook(step);
    step.waiters.insert(ticket);
    // Also if the join is cancelled before: others wait for the part.
    effects.Execute([this, ticket, key, part] { Offer(ticket, key, *part, /*first=*/true); });
    waiters_.emplace(ticket, Waiter{.key = std::move(key),
                                    .part = std::move(part),
                                    .deadline = deadline,
                                    .done = std::move(done),
                                    .wants_request = wants_request});
  }
  return ticket;
}

void Rendezvous::Cancel(Ticket ticket) {
  Effects effects(this);
  MutexLock lock(mutex_);
  const auto waiter = waiters_.find(ticket);
  if (waiter == waiters_.end()) return;
  Reply(ticket, CancelledJoinError(waiter->second.key, waiter->second.part->worker), effects);
}

void Rendezvous::Served(const ServedWorker& served) {
  MutexLock lock(mutex_);
  served_[{served.key, served.incarnation}].push_back(served.worker);
}

void Rendezvous::Tick() {
  Effects effects(this);
  MutexLock lock(mutex_);
  const Instant now = clock_();
  // Made once for all workers of a step, of whom there may be many.
  std::map<StepKey, absl::Status> incomplete;
  while (!deadlines_.empty() && deadlines_.begin()->first <= now) {
    const Ticket ticket = deadlines_.begin()->second;
    const Waiter& waiter = waiters_.at(ticket);
    absl::Status status = TimeoutError(waiter);
    if (status.ok()) {
      const auto [known, is_new] = incomplete.try_emplace(waiter.key);
      if (is_new) known->second = IncompleteError(waiter);
      status = known->second;
    }
    Reply(ticket, std::move(status), effects);
  }
  for (auto& [key, step] : steps_) {
    if (step.ask_again && *step.ask_again <= now) {
      step.ask_again = std::nullopt;
      effects.Execute([this, run = step.run] { StartPlan(run); });
    } else if (!step.busy && step.next_look <= now) {
      Hint(key, effects);
    }
  }
  for (const auto& [step, workers] : served_) {
    effects.Execute([this, key = step.first] { TellServed(key); });
  }
}

void Rendezvous::Shutdown() {
  Effects effects(this);
  MutexLock lock(mutex_);
  shutting_down_ = true;
  while (!waiters_.empty()) Reply(waiters_.begin()->first, ShuttingDownError(), effects);
}

Rendezvous::Counts Rendezvous::counts() const {
  MutexLock lock(mutex_);
  return {.waiting = waiters_.size(), .steps = steps_.size(), .refused = refused_, .plans = plans_};
}

void Rendezvous::Offer(Ticket ticket, const StepKey& key, const StepPart& part, bool first) {
  // The step may give way to the part if all have been served.
  TellServed(key);
  const auto offered = UnlessOutOfMemory([&] { return store_->PutPart(key, part); });

  Effects effects(this);
  MutexLock lock(mutex_);
  const auto step = steps_.find(key);
  // The store tells every replica, but hints may be lost.
  if (offered && offered->ok() && (*offered)->complete) Hint(key, effects);
  const auto found = waiters_.find(ticket);
  if (found == waiters_.end()) return;
  if (!offered) return Reply(ticket, OutOfMemoryError(key), effects);
  const absl::StatusOr<PartReceipt>& receipt = *offered;
  Waiter& waiter = found->second;
  if (!receipt.ok()) {
    // A store that is away may come back.
    if (first && !absl::IsUnavailable(receipt.status())) {
      Reply(ticket, receipt.status(), effects);
    } else {
      waiter.place = Waiter::Place::kOut;
      step->second.store_status = receipt.status();
    }
    return;
  }
  switch (receipt->verdict) {
    case PartReceipt::Verdict::kOtherTerms:
      Reply(ticket, OtherTermsError(key, part, *receipt), effects);
      return;
    case PartReceipt::Verdict::kOtherContent:
      Reply(ticket, OtherContentError(key, part), effects);
      return;
    case PartReceipt::Verdict::kSuperseded:
      Reply(ticket, SupersededError(key, receipt->current_run), effects);
      return;
    case PartReceipt::Verdict::kAccepted:
      break;
  }
  waiter.place = Waiter::Place::kIn;
  waiter.incarnation = receipt->incarnation;
  step->second.store_status = absl::OkStatus();
  if (!receipt->complete && planned_.Has(key, clock_())) {
    effects.Execute([this, key] { Restore(key).IgnoreError(); });
  }
  const Instant last_look = waiter.deadline - absl::ToChronoNanoseconds(options_.last_look);
  step->second.next_look = std::min(step->second.next_look, std::max(clock_(), last_look));
  // The last part may have come, and the others have been answered, while this one was on its way.
  if (step->second.progress && step->second.progress->complete) Hint(key, effects);
}

// Has the step looked at, if joins wait for it here.
void Rendezvous::Hint(const StepKey& key, Effects& effects) {
  const auto step = steps_.find(key);
  if (step == steps_.end() || step->second.waiters.empty()) return;
  if (step->second.busy) {
    step->second.again = true;
    return;
  }
  step->second.busy = true;
  effects.Execute([this, key] { Look(key); });
}

void Rendezvous::EndLook(Steps::iterator step, Effects& effects) {
  LocalStep& local = step->second;
  local.busy = false;
  local.run = nullptr;
  local.refusal = absl::OkStatus();
  if (local.waiters.empty()) {
    steps_.erase(step);
    return;
  }
  ScheduleLook(local);
  if (std::exchange(local.soon, false)) local.next_look = clock_();
  if (std::exchange(local.again, false)) Hint(step->first, effects);
}

// A poll_interval from now, or shortly before the next deadline, or when another replica has had
// its time to plan.
void Rendezvous::ScheduleLook(LocalStep& step) {
  const Instant now = clock_();
  step.next_look = now + absl::ToChronoNanoseconds(options_.poll_interval);
  if (step.patience_ends > now) step.next_look = std::min(step.next_look, step.patience_ends);
  for (const Ticket ticket : step.waiters) {
    const Instant last_look =
        waiters_.at(ticket).deadline - absl::ToChronoNanoseconds(options_.last_look);
    if (last_look > now) step.next_look = std::min(step.next_look, last_look);
  }
}

void Rendezvous::OfferAgain(Ticket ticket, Waiter& waiter, Effects& effects) {
  waiter.place = Waiter::Place::kOffered;
  effects.Execute([this, ticket, key = waiter.key, part = waiter.part] {
    Offer(ticket, key, *part, /*first=*/false);
  });
}

// Tells the store who has been served of all incarnations of the step.
void Rendezvous::TellServed(const StepKey& key) {
  std::map<std::pair<StepKey, std::string>, std::vector<uint32_t>> served;
  {
    MutexLock lock(mutex_);
    for (auto it = served_.lower_bound({key, ""}); it != served_.end() && it->first.first == key;) {
      served.insert(served_.extract(it++));
    }
  }
  for (const auto& [step, workers] : served) {
    UnlessOutOfMemory([&, &incarnation = step.second, &workers = workers] {
      return store_->MarkServed(key, incarnation, workers);
    });
  }
}

// Tells the store that nobody waits here, if that is still so.
void Rendezvous::Leave(const StepKey& key) {
  {
    MutexLock lock(mutex_);
    const auto step = steps_.find(key);
    if (step != steps_.end() && !step->second.waiters.empty()) return;
  }
  UnlessOutOfMemory([&] { return store_->Leave(key, options_.replica); });
}

bool Rendezvous::IsPlanned(const StepKey& key) const {
  MutexLock lock(mutex_);
  return planned_.Has(key, clock_());
}

// Puts a step back that was planned here, unless that is under way.
absl::Status Rendezvous::Restore(const StepKey& key) {
  std::shared_ptr<const WholeStep> step;
  {
    MutexLock lock(mutex_);
    step = planned_.Take(key, clock_());
  }
  if (step == nullptr) return absl::OkStatus();
  const auto restored = UnlessOutOfMemory([&] { return store_->Restore(key, *step); });
  // Another step in its place stays there.
  const bool is_other = restored && restored->ok() && !**restored;
  MutexLock lock(mutex_);
  planned_.Return(key, /*keep=*/!is_other);
  return restored ? restored->status() : OutOfMemoryError(key);
}

// Answers a join that waits, and ends what is only done for it.
void Rendezvous::Reply(Ticket ticket, Answer answer, Effects& effects) {
  const auto found = waiters_.find(ticket);
  Waiter& waiter = found->second;
  const auto step = steps_.find(waiter.key);
  LocalStep& local = step->second;
  local.waiters.erase(ticket);
  if (local.waiters.empty()) {
    // Whoever was refused has never been said to wait; once there is an outcome it does not matter.
    if (!answer.ok() && !shutting_down_ && waiter.place == Waiter::Place::kIn &&
        !(local.progress && local.progress->outcome)) {
      effects.Execute([this, key = waiter.key] { Leave(key); });
    }
    if (local.run) effects.Stop(local.run->stop);
    if (!local.busy || local.ask_again) steps_.erase(step);
  }
  deadlines_.erase({waiter.deadline, ticket});
  effects.Reply(std::move(waiter.done), std::move(answer));
  waiters_.erase(found);
}

// OK if nothing is known to be wrong but that workers are missing.
absl::Status Rendezvous::TimeoutError(const Waiter& waiter) const {
  const LocalStep& step = steps_.at(waiter.key);
  if (!step.store_status.ok()) return StoreLostError(waiter.key, step.store_status);
  if (waiter.place == Waiter::Place::kOffered) {
    return TooSlowError(waiter.key, "before its part was stored");
  }
  if (!step.progress) return TooSlowError(waiter.key, "before the other workers were looked for");
  if (!step.refusal.ok()) return step.refusal;
  if (step.progress->complete) {
    return TooSlowError(waiter.key, "before the plan was made; all parts are in");
  }
  return absl::OkStatus();
}

absl::Status Rendezvous::IncompleteError(const Waiter& waiter) const {
  const LocalStep& step = steps_.at(waiter.key);
  std::vector<bool> is_in(waiter.part->world_size);
  for (const uint32_t worker : step.progress->arrived) {
    if (worker < is_in.size()) is_in[worker] = true;
  }
  // Some have come since the last look.
  for (const Ticket ticket : step.waiters) {
    const Waiter& other = waiters_.at(ticket);
    if (other.place == Waiter::Place::kIn) is_in[other.part->worker] = true;
  }
  std::vector<uint32_t> missing;
  for (uint32_t worker = 0; worker < is_in.size(); ++worker) {
    if (!is_in[worker]) missing.push_back(worker);
  }
  if (missing.empty()) return AllTooLateError(waiter.key, waiter.part->world_size);
  return MissingWorkersError(waiter.key, waiter.part->world_size, missing);
}

}  // namespace batchplan
