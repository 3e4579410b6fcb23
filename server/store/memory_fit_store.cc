#include "server/store/memory_fit_store.h"

#include <iterator>

namespace batchplan {

absl::StatusOr<StoredFit> MemoryFitStore::Get(const std::string& job_id) {
  std::lock_guard lock(mutex_);
  const auto found = jobs_.find(job_id);
  if (found == jobs_.end()) return StoredFit();
  Touch(found->second);
  return found->second.fit;
}

absl::StatusOr<bool> MemoryFitStore::Replace(const std::string& job_id, uint64_t version,
                                             const std::string& state) {
  std::lock_guard lock(mutex_);
  auto found = jobs_.find(job_id);
  const uint64_t current = found == jobs_.end() ? 0 : found->second.fit.version;
  if (version != current) return false;
  if (found == jobs_.end()) {
    if (jobs_.size() >= max_jobs_) {
      jobs_.erase(uses_.front());
      uses_.pop_front();
    }
    uses_.push_back(job_id);
    found = jobs_.emplace(job_id, Job{.fit = {}, .use = std::prev(uses_.end())}).first;
  }
  Touch(found->second);
  found->second.fit = {.state = state, .version = ++last_version_};
  return true;
}

size_t MemoryFitStore::jobs() {
  std::lock_guard lock(mutex_);
  return jobs_.size();
}

}  // namespace batchplan
