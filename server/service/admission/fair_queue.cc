#include "server/service/admission/fair_queue.h"

#include <algorithm>
#include <iterator>
#include <new>
#include <tuple>
#include <type_traits>
#include <utility>

namespace batchplan {

const FairQueue::Owner* FairQueue::FindOwner(const std::string& owner) const {
  const auto found = owners_.find(owner);
  return found == owners_.end() ? nullptr : &found->second;
}

const FairQueue::Job* FairQueue::FindJob(const Owner& owner, const std::string& job) {
  const auto found = owner.jobs.find(job);
  return found == owner.jobs.end() ? &owner.newcomers : &found->second;
}

void FairQueue::Push(const Call& call, Instant now) {
  ForgetIdle(now);
  // Everything that may run out of memory comes first, so that a failure changes nothing.
  const auto entry = owners_.try_emplace(call.owner).first;
  Owner& owner = entry->second;
  owner.name = &entry->first;
  const auto known = owner.jobs.find(call.job);
  Job& job = known == owner.jobs.end() ? owner.newcomers : known->second;
  std::list<uint64_t> queue;
  try {
    if (owner.calls() == 0 && owner.jobs.empty()) {
      owner.node.assign(1, &owner);
      owner.place = owner.node.begin();
      owner.newcomers.node.assign(1, &owner.newcomers);
      owner.newcomers.place = owner.newcomers.node.begin();
      owner.newcomers.owner = &owner;
    }
    queue.push_back(call.id);
    calls_.emplace(call.id, Place{.call = call, .job = &job, .at = queue.begin()});
  } catch (...) {
    ForgetIfGone(owner);
    throw;
  }
  job.queue.splice(job.queue.end(), queue);
  Arrive(owner, level_);
  Arrive(job, owner.level);
  if (owner.waiting == 0) {
    waiting_owners_.splice(waiting_owners_.end(), owner.node);
  }
  if (job.waiting == 0) {
    owner.waiting_jobs.splice(owner.waiting_jobs.end(), job.idle ? idle_ : job.node, job.place);
    job.idle = false;
  }
  for (Account* account : AccountsOf(job)) {
    ++account->waiting;
    account->waiting_time += call.time;
    account->cost += call.cost;
  }
  ++waiting_;
  waiting_time_ += call.time;
  cost_ += call.cost;
}

void FairQueue::Arrive(Account& account, Level& level) {
  if (account.calls() == 0) {
    ++level.busy;
    // One that had used less than its share stays as far behind it. One that had used more waits
    // for the share to catch up.
    account.used = std::max(account.used,
                            std::min(level.share, account.used + (level.share - account.left_at)));
  }
  // An account that was away has no credit for that time.
  if (account.waiting == 0) account.used = std::max(account.used, level.reached);
}

void FairQueue::Leave(Account& account, Level& level) {
  if (account.calls() > 0) return;
  --level.busy;
  account.left_at = level.share;
}

void FairQueue::Share(absl::Duration time, Level& level) {
  level.share += time / static_cast<double>(level.busy);
}

void FairQueue::Unqueue(Place& place) {
  Job& job = *place.job;
  Owner& owner = *job.owner;
  job.taken_calls.splice(job.taken_calls.end(), job.queue, place.at);
  place.waits = false;
  for (Account* account : AccountsOf(job)) {
    --account->waiting;
    account->waiting_time -= place.call.time;
  }
  --waiting_;
  waiting_time_ -= place.call.time;
  if (job.waiting == 0) job.node.splice(job.node.end(), owner.waiting_jobs, job.place);
  if (owner.waiting == 0) owner.node.splice(owner.node.end(), waiting_owners_, owner.place);
}

bool FairQueue::MayHaveLast(const Job& job, const std::string& name, absl::Duration time) const {
  // Of what nothing is known, the estimate is 0.
  if (job.name != nullptr && time > absl::ZeroDuration() && time <= kShort) return true;
  if (job.owner->taken > 0 && owners_.size() > 1) return false;
  if (job.taken == 0) return true;
  if (job.name != nullptr || job.taken > 1) return false;
  return calls_.at(job.taken_calls.front()).call.job != name;
}

bool FairQueue::MayHaveLast(const std::string& owner, const std::string& job,
                            absl::Duration time) const {
  const Owner* const its = FindOwner(owner);
  return its == nullptr || MayHaveLast(*FindJob(*its, job), job, time);
}

FairQueue::Place* FairQueue::NextOf(Job& job, size_t free_threads) {
  for (const uint64_t id : job.queue) {
    Place& place = calls_.at(id);
    if (free_threads > 1 || MayHaveLast(job, place.call.job, place.call.time)) return &place;
    // Newcomers share a queue but have different names; in any other queue all calls have one name.
    if (job.name != nullptr) break;
  }
  return nullptr;
}

FairQueue::Place* FairQueue::Next(Owner& owner, size_t free_threads) {
  Place* next = nullptr;
  for (Job* job : owner.waiting_jobs) {
    Place* const place = NextOf(*job, free_threads);
    if (place == nullptr) continue;
    if (next == nullptr || IsBefore(job->used, *place, next->job->used, *next)) next = place;
  }
  return next;
}

std::optional<uint64_t> FairQueue::Pop(size_t free_threads) {
  if (free_threads == 0) return std::nullopt;
  Place* next = nullptr;
  for (Owner* owner : waiting_owners_) {
    Place* const place = Next(*owner, free_threads);
    if (place == nullptr) continue;
    if (next == nullptr || IsBefore(owner->used, *place, next->job->owner->used, *next)) {
      next = place;
    }
  }
  if (next == nullptr) return std::nullopt;
  Job& job = *next->job;
  Owner& owner = *job.owner;
  Unqueue(*next);
  const auto reach = [](const Account& account, Level& level) {
    level.reached = std::max(level.reached, account.used);
    level.share = std::max(level.share, level.reached);
  };
  reach(owner, level_);
  reach(job, owner.level);
  for (Account* account : AccountsOf(job)) {
    ++account->taken;
    account->used += next->call.time;
  }
  return next->call.id;
}

void FairQueue::Done(uint64_t id, absl::Duration time, Instant now) {
  const auto found = calls_.find(id);
  if (found == calls_.end() || found->second.waits) return;
  const Call call = std::move(found->second.call);
  Job& job = *found->second.job;
  Owner& owner = *job.owner;
  job.taken_calls.erase(found->second.at);
  calls_.erase(found);
  cost_ -= call.cost;
  for (Account* account : AccountsOf(job)) {
    --account->taken;
    account->cost -= call.cost;
    account->used += time - call.time;
  }
  Share(time, level_);
  Share(time, owner.level);
  if (job.name == nullptr) {
    Learn(owner, call.job, time, now);
  } else if (job.calls() == 0) {
    BeginIdle(job, now);
  }
  Leave(job, owner.level);
  Leave(owner, level_);
  ForgetIfGone(owner);
  ForgetIdle(now);
}

void FairQueue::Learn(Owner& owner, const std::string& name, absl::Duration used, Instant now) {
  const auto known = owner.jobs.find(name);
  if (known != owner.jobs.end()) return;
  std::map<std::string, Job>::iterator entry;
  try {
    std::list<Job*> node(1);
    entry = owner.jobs.try_emplace(name).first;
    entry->second.node.swap(node);
  } catch (const std::bad_alloc&) {
    return;  // it stays a newcomer
  }
  Job& newcomers = owner.newcomers;
  Job& job = entry->second;
  job.owner = &owner;
  job.name = &entry->first;
  job.node.front() = &job;
  job.place = job.node.begin();
  // The job is charged as if the call had been its own. The newcomers stay charged too, since other
  // newcomers come next.
  job.used = owner.level.reached + used;
  job.left_at = owner.level.share;
  for (const auto calls : {&Job::queue, &Job::taken_calls}) {
    for (auto next = (newcomers.*calls).begin(); next != (newcomers.*calls).end();) {
      const auto at = next++;
      Place& place = calls_.at(*at);
      if (place.call.job != name) continue;
      (job.*calls).splice((job.*calls).end(), newcomers.*calls, at);
      const absl::Duration time = place.waits ? place.call.time : absl::ZeroDuration();
      --(place.waits ? newcomers.waiting : newcomers.taken);
      ++(place.waits ? job.waiting : job.taken);
      newcomers.waiting_time -= time;
      job.waiting_time += time;
      newcomers.cost -= place.call.cost;
      job.cost += place.call.cost;
      place.job = &job;
    }
  }
  if (job.calls() > 0) ++owner.level.busy;
  if (job.waiting > 0) {
    owner.waiting_jobs.splice(owner.waiting_jobs.end(), job.node);
    if (newcomers.waiting == 0) {
      newcomers.node.splice(newcomers.node.end(), owner.waiting_jobs, newcomers.place);
    }
  }
  if (job.calls() == 0) BeginIdle(job, now);
}

void FairQueue::BeginIdle(Job& job, Instant now) {
  idle_.splice(idle_.end(), job.node);
  job.idle = true;
  job.idle_since = now;
}

void FairQueue::ForgetIdle(Instant now) {
  while (!idle_.empty()) {
    Job& job = *idle_.front();
    const bool old = now - job.idle_since >= absl::ToChronoNanoseconds(kRemembered);
    if (!old && idle_.size() <= kMaxIdleJobs) return;
    idle_.pop_front();
    Owner& owner = *job.owner;
    owner.jobs.erase(owner.jobs.find(*job.name));
    ForgetIfGone(owner);
  }
}

void FairQueue::ForgetIfGone(Owner& owner) {
  if (owner.calls() == 0 && owner.jobs.empty()) owners_.erase(owners_.find(*owner.name));
}

bool FairQueue::Remove(uint64_t id) {
  const auto found = calls_.find(id);
  if (found == calls_.end() || !found->second.waits) return false;
  Unqueue(found->second);
  const uint64_t cost = found->second.call.cost;
  Job& job = *found->second.job;
  job.taken_calls.erase(found->second.at);
  calls_.erase(found);
  cost_ -= cost;
  for (Account* account : AccountsOf(job)) account->cost -= cost;
  Leave(job, job.owner->level);
  Leave(*job.owner, level_);
  if (job.name != nullptr && job.calls() == 0) BeginIdle(job, job.idle_since);
  ForgetIfGone(*job.owner);
  return true;
}

FairQueue::Room FairQueue::MakeRoom(const std::string& owner, const std::string& job, uint64_t cost,
                                    const Bounds& bounds) const {
  // What an owner or a job would hold without the calls chosen so far to be pushed out.
  struct Holding {
    size_t waiting = 0;
    // Calls that wait or that a thread has taken.
    size_t calls = 0;
    uint64_t cost = 0;

    void Lose(uint64_t call_cost) {
      --waiting;
      --calls;
      cost -= call_cost;
    }
  };
  struct JobHolding : Holding {
    const Job* job = nullptr;
    // The newest waiting call that stays.
    std::list<uint64_t>::const_reverse_iterator newest;
  };
  struct OwnerHolding : Holding {
    const Owner* owner = nullptr;
    std::vector<JobHolding> jobs;
  };
  const auto holding_of = [](const Account& account) {
    return Holding{.waiting = account.waiting, .calls = account.calls(), .cost = account.cost};
  };

  Room room;
  const Owner* const my_owner = FindOwner(owner);
  const Job* const my_job = my_owner == nullptr ? nullptr : FindJob(*my_owner, job);
  // What the newcomer's owner and job would hold with its call.
  Holding mine_as_owner = my_owner == nullptr ? Holding() : holding_of(*my_owner);
  Holding mine_as_job = my_job == nullptr ? Holding() : holding_of(*my_job);
  for (Holding* mine : {&mine_as_owner, &mine_as_job}) {
    ++mine->calls;
    mine->cost += cost;
  }
  std::vector<OwnerHolding> owners;
  size_t waiting = waiting_;
  uint64_t total = cost_;
  while (true) {
    const bool too_many = waiting >= bounds.waiting;
    const bool too_much = total > 0 && (cost > bounds.cost || total > bounds.cost - cost);
    if (!too_many && !too_much) {
      room.admitted = true;
      return room;
    }
    if (owners.empty()) {
      for (const Owner* held : waiting_owners_) {
        OwnerHolding& added = owners.emplace_back(OwnerHolding{holding_of(*held), held, {}});
        for (const Job* one : held->waiting_jobs) {
          added.jobs.push_back({holding_of(*one), one, one->queue.crbegin()});
        }
      }
    }
    // Compares by what exceeds its bound: the number of calls or their cost.
    const auto more = [too_many](const Holding& a, const Holding& b) {
      return too_many ? a.calls > b.calls : a.cost > b.cost;
    };
    // Of those that have a waiting call and are not `is_mine`, the one that holds most.
    const auto most_of = [&](auto& holdings, const auto& is_mine, bool keeps_one) {
      typename std::decay_t<decltype(holdings)>::pointer most = nullptr;
      for (auto& holding : holdings) {
        if (is_mine(holding) || holding.waiting == 0) continue;
        if (keeps_one && holding.calls < 2) continue;
        // A job loses its only call after all other calls of its owner.
        if (most == nullptr || (holding.calls > 1) > (most->calls > 1) ||
            ((holding.calls > 1) == (most->calls > 1) && more(holding, *most))) {
          most = &holding;
        }
      }
      return most;
    };
    OwnerHolding* loser = most_of(
        owners, [&](const OwnerHolding& held) { return held.owner == my_owner; }, true);
    JobHolding* victim = nullptr;
    if (loser != nullptr && more(*loser, mine_as_owner)) {
      victim = most_of(
          loser->jobs, [](const JobHolding&) { return false; }, false);
    } else {
      loser = nullptr;
      for (OwnerHolding& held : owners) {
        if (held.owner == my_owner) loser = &held;
      }
      if (loser == nullptr) return {};
      victim = most_of(
          loser->jobs, [&](const JobHolding& held) { return held.job == my_job; }, true);
      if (victim == nullptr || !more(*victim, mine_as_job)) return {};
    }
    const Call& newest = calls_.at(*victim->newest++).call;
    room.pushed_out.push_back(newest.id);
    victim->Lose(newest.cost);
    loser->Lose(newest.cost);
    if (loser->owner == my_owner) mine_as_owner.Lose(newest.cost);
    --waiting;
    total -= newest.cost;
  }
}

absl::Duration FairQueue::TimeAhead(const std::string& owner, const std::string& job) const {
  const Owner* const my_owner = FindOwner(owner);
  if (my_owner == nullptr) return absl::ZeroDuration();
  const Job* const my_job = FindJob(*my_owner, job);
  absl::Duration ahead = my_job->waiting_time;
  for (const Job* other : my_owner->waiting_jobs) {
    if (other != my_job) ahead += std::min(other->waiting_time, my_job->waiting_time);
  }
  const absl::Duration before_owner = ahead;
  for (const Owner* other : waiting_owners_) {
    if (other != my_owner) ahead += std::min(other->waiting_time, before_owner);
  }
  return ahead;
}

}  // namespace batchplan
