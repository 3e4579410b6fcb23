#include "server/rendezvous/planned_steps.h"

#include <string>
#include <utility>

namespace batchplan {
namespace {

// What the containers take beside the bytes, roughly.
constexpr uint64_t kStepOverhead = 512;

uint64_t BytesOf(const StepKey& key, const WholeStep& step) {
  uint64_t bytes = kStepOverhead + 2 * (key.job_id.size() + key.run_id.size()) + step.terms.size() +
                   step.outcome.size();
  for (const std::string& content : step.contents) bytes += sizeof(std::string) + content.size();
  return bytes;
}

}  // namespace

void PlannedSteps::Remember(const StepKey& key, std::shared_ptr<const WholeStep> step,
                            Instant now) {
  if (const auto last = entries_.find(key); last != entries_.end()) Forget(last);
  const uint64_t bytes = BytesOf(key, *step);
  if (bytes > max_bytes_) return;
  while (!order_.empty()) {
    const auto first = entries_.find(order_.front());
    if (first->second.expiry > now && bytes_ + bytes <= max_bytes_) break;
    Forget(first);
  }
  std::list<StepKey> place = {key};
  entries_.emplace(key, Entry{.step = std::move(step),
                              .bytes = bytes,
                              .expiry = now + lifetime_,
                              .taken = false,
                              .in_order = place.begin()});
  order_.splice(order_.end(), place);
  bytes_ += bytes;
}

bool PlannedSteps::Has(const StepKey& key, Instant now) const {
  const auto found = entries_.find(key);
  return found != entries_.end() && found->second.expiry > now;
}

std::shared_ptr<const WholeStep> PlannedSteps::Take(const StepKey& key, Instant now) {
  if (!Has(key, now)) return nullptr;
  Entry& entry = entries_.find(key)->second;
  if (std::exchange(entry.taken, true)) return nullptr;
  return entry.step;
}

void PlannedSteps::Return(const StepKey& key, bool keep) {
  const auto found = entries_.find(key);
  if (found == entries_.end() || !found->second.taken) return;
  found->second.taken = false;
  if (!keep) Forget(found);
}

void PlannedSteps::Forget(Entries::iterator entry) {
  bytes_ -= entry->second.bytes;
  order_.erase(entry->second.in_order);
  entries_.erase(entry);
}

}  // namespace batchplan
