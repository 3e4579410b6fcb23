// A FitStore in this process's memory: the default, for one replica alone.
//
//   MemoryFitStore store(/*max_jobs=*/4096);
//
// Holds the states of at most `max_jobs` jobs. One more takes the place of a job of the owner that
// has most jobs here: of those of its jobs that were written only once the least recently used, and
// if there are none the least recently used of all. So many new names push out neither other
// owners' jobs nor a job that goes on reporting. A job that was forgotten starts anew. Versions
// never repeat, so that a state read before its job was forgotten replaces nothing. A call takes
// O(log jobs), one that forgets a job O(owners), and never blocks for long.

#ifndef BATCHPLAN_SERVER_STORE_MEMORY_FIT_STORE_H_
#define BATCHPLAN_SERVER_STORE_MEMORY_FIT_STORE_H_

#include <cstddef>
#include <list>
#include <map>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "server/base/mutex.h"
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
                               const std::string& state, const std::string& owner) override;

  // The jobs that have a state, as metrics show them.
  size_t jobs();

 private:
  // Job ids, the least recently used first.
  using Uses = std::list<std::string>;
  struct Owner {
    Uses written_once;
    Uses written_more;

    size_t jobs() const { return written_once.size() + written_more.size(); }
  };
  using Owners = std::map<std::string, Owner>;
  struct Job {
    StoredFit fit;
    // Whose list it is in, which list and where.
    Owners::iterator owner;
    Uses Owner::*uses = &Owner::written_once;
    Uses::iterator use;
  };

  // Puts the job last in the list.
  static void Move(Job& job, Owners::iterator owner, Uses Owner::*uses);
  void ForgetOne(const std::string& newcomer) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const size_t max_jobs_;

  Mutex mutex_;
  std::map<std::string, Job> jobs_ ABSL_GUARDED_BY(mutex_);
  // Those that have jobs.
  Owners owners_ ABSL_GUARDED_BY(mutex_);
  uint64_t last_version_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_STORE_MEMORY_FIT_STORE_H_
