// A FitStore in this process's memory: the default, for one replica alone.
//
//   MemoryFitStore store(/*max_jobs=*/4096);
//
// Holds the states of at most `max_jobs` jobs. One more replaces a job of the owner with most jobs:
// that of the lowest rank. A used job's rank is its number of writes, at most kMostWrites, on top
// of the rank that was last forgotten among its owner's jobs; of equal ranks the one used longest
// ago goes first (GreedyDual with frequencies; Cherkasova 1998). So new names push out neither
// other owners' jobs nor, even if each reports a few times, a job of the same owner that has
// reported often and goes on; and a job that has ended gives way some day. What remains: an owner
// loses a job if its other names report kMostWrites * max_jobs times between two uses of it, or
// fewer times while it has reported little. A forgotten job starts anew. Versions never repeat, so
// a state read before its job was forgotten replaces nothing. O(log jobs) a call, O(owners) if a
// job is forgotten; never blocks for long.

#ifndef BATCHPLAN_SERVER_STORE_MEMORY_FIT_STORE_H_
#define BATCHPLAN_SERVER_STORE_MEMORY_FIT_STORE_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

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

  // Sets the state whatever its version. With a null owner, the owner stays, or is "".
  void Set(const std::string& job_id, const std::string& state, const std::string* owner);

  // The jobs that have a state, as metrics show them.
  size_t jobs();
  std::vector<std::string> job_ids();

  static constexpr uint64_t kMostWrites = 1024;

 private:
  // A rank, and the use at which the job got it.
  using Rank = std::pair<uint64_t, uint64_t>;
  struct Owner {
    // Job ids.
    std::map<Rank, std::string> jobs;
    // The last forgotten rank.
    uint64_t forgotten = 0;
  };
  using Owners = std::map<std::string, Owner>;
  struct Job {
    StoredFit fit;
    uint64_t writes = 0;
    Owners::iterator owner;
    Rank rank;
  };
  using Jobs = std::map<std::string, Job>;

  void Write(Jobs::iterator found, const std::string& job_id, const std::string& state,
             const std::string& owner) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Ranks the job anew, among those of `owner`.
  void Use(Jobs::iterator job, Owners::iterator owner) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ForgetOne(const std::string& newcomer) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const size_t max_jobs_;

  Mutex mutex_;
  Jobs jobs_ ABSL_GUARDED_BY(mutex_);
  // The owners that have jobs.
  Owners owners_ ABSL_GUARDED_BY(mutex_);
  uint64_t last_version_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t last_use_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_STORE_MEMORY_FIT_STORE_H_
