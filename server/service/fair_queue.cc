#include "server/service/fair_queue.h"

#include <algorithm>

namespace batchplan {

const FairQueue::Job* FairQueue::Find(const std::string& job) const {
  const auto found = jobs_.find(job);
  return found == jobs_.end() ? nullptr : &found->second;
}

void FairQueue::Push(const std::string& job, uint64_t id, uint64_t cost) {
  // What may fail for want of memory comes first, so that it changes nothing.
  const auto entry = jobs_.try_emplace(job).first;
  Job& its = entry->second;
  std::list<Call> call;
  std::list<Job*> turn;
  try {
    call.push_back({.id = id, .cost = cost, .job = &its});
    if (its.waiting.empty()) turn.push_back(&its);
    calls_.emplace(id, Place{.call = call.front(), .waiting = call.begin()});
  } catch (...) {
    if (its.calls == 0) jobs_.erase(entry);
    throw;
  }
  its.name = &entry->first;
  if (!turn.empty()) {
    its.turn = turn.begin();
    turns_.splice(turns_.end(), turn);
  }
  its.waiting.splice(its.waiting.end(), call);
  its.waiting_cost += cost;
  ++its.calls;
  its.cost += cost;
  ++waiting_;
  waiting_cost_ += cost;
  cost_ += cost;
}

std::optional<uint64_t> FairQueue::Pop() {
  for (size_t passed = 0; !turns_.empty();) {
    Job& job = *turns_.front();
    if (!granted_) {
      job.deficit += kQuantum;
      granted_ = true;
    }
    const Call call = job.waiting.front();
    if (call.cost <= job.deficit) {
      job.deficit -= call.cost;
      Unqueue(calls_.at(call.id));
      return call.id;
    }
    turns_.splice(turns_.end(), turns_, turns_.begin());
    granted_ = false;
    if (++passed == turns_.size()) {
      SkipRounds();
      passed = 0;
    }
  }
  return std::nullopt;
}

void FairQueue::SkipRounds() {
  uint64_t rounds = std::numeric_limits<uint64_t>::max();
  for (const Job* job : turns_) {
    const uint64_t missing = job->waiting.front().cost - job->deficit;
    rounds = std::min(rounds, (missing + kQuantum - 1) / kQuantum);
  }
  for (Job* job : turns_) job->deficit += (rounds - 1) * kQuantum;
}

void FairQueue::Unqueue(Place& place) {
  Job& job = *place.call.job;
  job.waiting.erase(*place.waiting);
  place.waiting = std::nullopt;
  job.waiting_cost -= place.call.cost;
  --waiting_;
  waiting_cost_ -= place.call.cost;
  if (!job.waiting.empty()) return;
  // Who has nothing to send saves nothing up.
  job.deficit = 0;
  if (job.turn == turns_.begin()) granted_ = false;
  turns_.erase(job.turn);
}

void FairQueue::Forget(uint64_t id, const Call& call) {
  Job& job = *call.job;
  cost_ -= call.cost;
  job.cost -= call.cost;
  if (--job.calls == 0) jobs_.erase(jobs_.find(*job.name));
  calls_.erase(id);
}

void FairQueue::Done(uint64_t id) {
  const auto place = calls_.find(id);
  if (place != calls_.end()) Forget(id, Call(place->second.call));
}

bool FairQueue::Remove(uint64_t id) {
  const auto place = calls_.find(id);
  if (place == calls_.end() || !place->second.waiting.has_value()) return false;
  Unqueue(place->second);
  Forget(id, Call(place->second.call));
  return true;
}

FairQueue::Room FairQueue::MakeRoom(const std::string& job, uint64_t cost,
                                    const Bounds& bounds) const {
  // A job as it would be with the calls gone that are to be pushed out so far.
  struct Holding {
    // Of those that wait, the newest one that stays, and how many stay.
    std::list<Call>::const_reverse_iterator newest;
    size_t waiting = 0;
    // Waiting or taken.
    size_t calls = 0;
    uint64_t cost = 0;
  };
  std::vector<Holding> holdings;
  Room room;
  const Job* const mine = Find(job);
  Holding newcomers;  // its job's, with it
  newcomers.calls = 1 + (mine == nullptr ? 0 : mine->calls);
  newcomers.cost = cost + (mine == nullptr ? 0 : mine->cost);
  size_t waiting = waiting_;
  uint64_t total = cost_;
  while (true) {
    const bool too_many = waiting >= bounds.waiting;
    const bool too_much = total > 0 && (cost > bounds.cost || total > bounds.cost - cost);
    if (!too_many && !too_much) {
      room.admitted = true;
      return room;
    }
    if (holdings.empty()) {
      for (const auto& [name, held] : jobs_) {
        holdings.push_back({.newest = held.waiting.crbegin(),
                            .waiting = held.waiting.size(),
                            .calls = held.calls,
                            .cost = held.cost});
      }
    }
    // By what there is too much of.
    const auto more = [too_many](const Holding& a, const Holding& b) {
      return too_many ? a.calls > b.calls : a.cost > b.cost;
    };
    Holding* most = nullptr;
    for (Holding& holding : holdings) {
      if (holding.waiting == 0 || holding.calls < 2) continue;
      if (most == nullptr || more(holding, *most)) most = &holding;
    }
    if (most == nullptr || !more(*most, newcomers)) return {};
    const Call& newest = *most->newest++;
    room.pushed_out.push_back(newest.id);
    --most->waiting;
    --most->calls;
    most->cost -= newest.cost;
    --waiting;
    total -= newest.cost;
  }
}

uint64_t FairQueue::CostAhead(const std::string& job) const {
  const Job* const mine = Find(job);
  const uint64_t before_mine = mine == nullptr ? 0 : mine->waiting_cost;
  uint64_t ahead = before_mine;
  for (const Job* other : turns_) {
    if (other != mine) ahead += std::min(other->waiting_cost, before_mine);
  }
  return ahead;
}

}  // namespace batchplan
