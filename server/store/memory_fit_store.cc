#include "server/store/memory_fit_store.h"

#include <algorithm>

namespace batchplan {

absl::StatusOr<StoredFit> MemoryFitStore::Get(const std::string& job_id) {
  MutexLock lock(mutex_);
  const auto found = jobs_.find(job_id);
  if (found == jobs_.end()) return StoredFit();
  Use(found, found->second.owner);
  return found->second.fit;
}

absl::StatusOr<bool> MemoryFitStore::Replace(const std::string& job_id, uint64_t version,
                                             const std::string& state, const std::string& owner) {
  MutexLock lock(mutex_);
  const auto found = jobs_.find(job_id);
  const uint64_t current = found == jobs_.end() ? 0 : found->second.fit.version;
  if (version != current) return false;
  Write(found, job_id, state, owner);
  return true;
}

void MemoryFitStore::Set(const std::string& job_id, const std::string& state,
                         const std::string* owner) {
  MutexLock lock(mutex_);
  const auto found = jobs_.find(job_id);
  const std::string standing = found == jobs_.end() ? "" : found->second.owner->first;
  Write(found, job_id, state, owner == nullptr ? standing : *owner);
}

void MemoryFitStore::Write(Jobs::iterator found, const std::string& job_id,
                           const std::string& state, const std::string& owner) {
  if (found == jobs_.end()) {
    if (jobs_.size() >= max_jobs_) ForgetOne(owner);
    found = jobs_.emplace(job_id, Job{.fit = {}, .owner = owners_.end(), .rank = {}}).first;
  }
  Job& job = found->second;
  const auto before = job.owner;
  job.writes = std::min(job.writes + 1, kMostWrites);
  Use(found, owners_.try_emplace(owner).first);
  if (before != owners_.end() && before->second.jobs.empty()) owners_.erase(before);
  job.fit = {.state = state, .version = ++last_version_};
}

void MemoryFitStore::Use(Jobs::iterator job, Owners::iterator owner) {
  Job& used = job->second;
  if (used.owner != owners_.end()) used.owner->second.jobs.erase(used.rank);
  used.owner = owner;
  used.rank = {owner->second.forgotten + used.writes, ++last_use_};
  owner->second.jobs.emplace(used.rank, job->first);
}

void MemoryFitStore::ForgetOne(const std::string& newcomer) {
  const auto jobs_with_newcomer = [&](const Owners::value_type& owner) {
    return owner.second.jobs.size() + (owner.first == newcomer ? 1 : 0);
  };
  const auto most = std::max_element(
      owners_.begin(), owners_.end(),
      [&](const auto& a, const auto& b) { return jobs_with_newcomer(a) < jobs_with_newcomer(b); });
  Owner& owner = most->second;
  const auto lowest = owner.jobs.begin();
  owner.forgotten = lowest->first.first;
  jobs_.erase(lowest->second);
  owner.jobs.erase(lowest);
  if (owner.jobs.empty()) owners_.erase(most);
}

size_t MemoryFitStore::jobs() {
  MutexLock lock(mutex_);
  return jobs_.size();
}

std::vector<std::string> MemoryFitStore::job_ids() {
  MutexLock lock(mutex_);
  std::vector<std::string> ids;
  ids.reserve(jobs_.size());
  for (const auto& [id, job] : jobs_) ids.push_back(id);
  return ids;
}

}  // namespace batchplan
