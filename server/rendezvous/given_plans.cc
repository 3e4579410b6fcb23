#include "server/rendezvous/given_plans.h"

#include <utility>

namespace batchplan {

GivenPlans::Plans GivenPlans::Keep(Given plan, Instant now) {
  Plans dropped;
  const StepKey& key = plan.joined->key;
  if (const auto last = places_.find(key); last != places_.end()) Forget(last->second, dropped);
  const uint64_t bytes = plan.bytes;
  if (bytes > max_bytes_) return dropped;
  while (!plans_.empty() && (plans_.front().expiry <= now || bytes_ + bytes > max_bytes_)) {
    Forget(plans_.begin(), dropped);
  }
  plan.expiry = now + lifetime_;
  // Everything that may run out of memory comes first, so that a failure keeps nothing.
  Plans kept;
  kept.push_back(std::move(plan));
  places_.emplace(kept.front().joined->key, kept.begin());
  plans_.splice(plans_.end(), kept);
  bytes_ += bytes;
  return dropped;
}

std::shared_ptr<const JoinedPlan> GivenPlans::Find(const StepKey& key, std::string_view incarnation,
                                                   Instant now) const {
  const auto place = places_.find(key);
  if (place == places_.end()) return nullptr;
  const Given& given = *place->second;
  const bool is_it = given.expiry > now && given.joined->incarnation == incarnation;
  return is_it ? given.joined : nullptr;
}

void GivenPlans::Forget(Plans::iterator plan, Plans& dropped) {
  bytes_ -= plan->bytes;
  places_.erase(plan->joined->key);
  dropped.splice(dropped.end(), plans_, plan);
}

}  // namespace batchplan
