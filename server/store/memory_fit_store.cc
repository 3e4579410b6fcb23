#include "server/store/memory_fit_store.h"

#include <algorithm>

namespace batchplan {

absl::StatusOr<StoredFit> MemoryFitStore::Get(const std::string& job_id) {
  MutexLock lock(mutex_);
  const auto found = jobs_.find(job_id);
  if (found == jobs_.end()) return StoredFit();
  Move(found->second, found->second.owner, found->second.uses);
  return found->second.fit;
}

absl::StatusOr<bool> MemoryFitStore::Replace(const std::string& job_id, uint64_t version,
                                             const std::string& state, const std::string& owner) {
  MutexLock lock(mutex_);
  auto found = jobs_.find(job_id);
  const uint64_t current = found == jobs_.end() ? 0 : found->second.fit.version;
  if (version != current) return false;
  if (found == jobs_.end()) {
    if (jobs_.size() >= max_jobs_) ForgetOne(owner);
    const auto its = owners_.try_emplace(owner).first;
    Uses& uses = its->second.written_once;
    uses.push_back(job_id);
    found = jobs_.emplace(job_id, Job{.fit = {}, .owner = its, .use = std::prev(uses.end())}).first;
  } else {
    const auto before = found->second.owner;
    Move(found->second, owners_.try_emplace(owner).first, &Owner::written_more);
    if (before->second.jobs() == 0) owners_.erase(before);
  }
  found->second.fit = {.state = state, .version = ++last_version_};
  return true;
}

void MemoryFitStore::Move(Job& job, Owners::iterator owner, Uses Owner::*uses) {
  Uses& to = owner->second.*uses;
  to.splice(to.end(), job.owner->second.*job.uses, job.use);
  job.owner = owner;
  job.uses = uses;
}

void MemoryFitStore::ForgetOne(const std::string& newcomer) {
  const auto jobs_with_newcomer = [&](const Owners::value_type& owner) {
    return owner.second.jobs() + (owner.first == newcomer ? 1 : 0);
  };
  const auto most = std::max_element(
      owners_.begin(), owners_.end(),
      [&](const auto& a, const auto& b) { return jobs_with_newcomer(a) < jobs_with_newcomer(b); });
  Owner& owner = most->second;
  Uses& uses = owner.written_once.empty() ? owner.written_more : owner.written_once;
  jobs_.erase(uses.front());
  uses.pop_front();
  if (owner.jobs() == 0) owners_.erase(most);
}

size_t MemoryFitStore::jobs() {
  MutexLock lock(mutex_);
  return jobs_.size();
}

}  // namespace batchplan
