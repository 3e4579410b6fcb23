#include "server/rendezvous/given_plans.h"

#include <utility>

namespace batchplan {

void GivenPlans::Keep(std::shared_ptr<const JoinedPlan> joined, Instant now) {
  if (const auto last = places_.find(joined->key); last != places_.end()) Forget(last->second);
  const uint64_t bytes = joined->bytes();
  if (bytes > max_bytes_) return;
  while (!plans_.empty() && (plans_.front().expiry <= now || bytes_ + bytes > max_bytes_)) {
    Forget(plans_.begin());
  }
  // Everything that may run out of memory comes first, so that a failure keeps nothing.
  Plans plan;
  plan.push_back({.joined = std::move(joined), .bytes = bytes, .expiry = now + lifetime_});
  places_.emplace(plan.front().joined->key, plan.begin());
  plans_.splice(plans_.end(), plan);
  bytes_ += bytes;
}

std::shared_ptr<const JoinedPlan> GivenPlans::Find(const StepKey& key, std::string_view incarnation,
                                                   Instant now) const {
  const auto place = places_.find(key);
  if (place == places_.end()) return nullptr;
  const Given& given = *place->second;
  const bool is_it = given.expiry > now && given.joined->incarnation == incarnation;
  return is_it ? given.joined : nullptr;
}

void GivenPlans::Forget(Plans::iterator plan) {
  bytes_ -= plan->bytes;
  places_.erase(plan->joined->key);
  plans_.erase(plan);
}

}  // namespace batchplan
