// A FitStore in this process's memory: the default, for one replica alone.
//
//   MemoryFitStore store(/*max_jobs=*/4096);
//
// Holds the states of at most `max_jobs` jobs, and forgets the least recently used one for a new
// one; a job that was forgotten starts anew. Versions never repeat, so that a state read before its
// job was forgotten replaces nothing. A call takes O(log jobs) and never blocks for long.

#ifndef BATCHPLAN_SERVER_STORE_MEMORY_FIT_STORE_H_
#define BATCHPLAN_SERVER_STORE_MEMORY_FIT_STORE_H_

#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <mutex>
#include <string>

#include "absl/status/statusor.h"
#include "server/store/fit_store.h"

namespace batchplan {

class MemoryFitStore : public FitStore {
 public:
  // max_jobs >= 1.
  explicit MemoryFitStore(size_t max_jobs) : max_jobs_(max_jobs) {}

  MemoryFitStore(const MemoryFitStore&) = delete;
  MemoryFitStore& operator=(const MemoryFitStore&) = delete;

  absl::StatusOr<StoredFit> Get(const std::string& job_id) override;
  absl::StatusOr<bool> Replace(const std::string& job_id, uint64_t version,
                               const std::string& state) override;

  // The jobs that have a state, as metrics show them.
  size_t jobs();

 private:
  struct Job {
    StoredFit fit;
    std::list<std::string>::iterator use;
  };

  // Under mutex_.
  void Touch(Job& job) { uses_.splice(uses_.end(), uses_, job.use); }

  const size_t max_jobs_;

  std::mutex mutex_;
  std::map<std::string, Job> jobs_;
  // The least recently used first.
  std::list<std::string> uses_;
  uint64_t last_version_ = 0;
};

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_STORE_MEMORY_FIT_STORE_H_
