// A StepStore in this process's memory: the default, for one replica alone.
//
//   MemoryStepStore store({.max_bytes = int64_t{1} << 30}, std::chrono::steady_clock::now);
//
// A step costs its parts, its terms, its outcome and its plan, and a little for the maps around
// them; it counts for the owner of the part that began it. Steps are forgotten when their time is
// over. Past max_bytes more are, in this order, until there is room:
//   - steps without an outcome that nobody waits for, beginning with the one that was left first;
//   - steps of the owner that holds most, beginning with the one whose last write is longest ago.
// A part or an outcome is refused with ResourceExhausted if no owner holds more than its own owner
// would with it.
//
// A call is O(log steps + log parts) and a copy of its result, past max_bytes also O(owners) for
// each step that gives way; it blocks only on other calls' bookkeeping. A call that throws
// std::bad_alloc has either done its work or left everything as it was, except for steps that gave
// way and the job's runs.

#ifndef BATCHPLAN_SERVER_STORE_MEMORY_STEP_STORE_H_
#define BATCHPLAN_SERVER_STORE_MEMORY_STEP_STORE_H_

#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "server/base/clock.h"
#include "server/base/mutex.h"
#include "server/store/job_runs.h"
#include "server/store/step_store.h"

namespace batchplan {

struct MemoryStepStoreOptions {
  StepStoreOptions lifetimes;
  // --rendezvous_memory_bytes.
  int64_t max_bytes = int64_t{1} << 30;
};

class MemoryStepStore : public StepStore {
 public:
  // The present content, for metrics.
  struct Counts {
    uint64_t steps = 0;
    uint64_t parts = 0;
    uint64_t bytes = 0;
  };

  MemoryStepStore(const MemoryStepStoreOptions& options, Clock clock);

  MemoryStepStore(const MemoryStepStore&) = delete;
  MemoryStepStore& operator=(const MemoryStepStore&) = delete;

  void SetListener(Listener listener) override { listener_.Set(std::move(listener)); }
  absl::StatusOr<PartReceipt> PutPart(const StepKey& key, const StepPart& part) override;
  absl::StatusOr<StepProgress> Progress(const StepKey& key, const std::string& waits_at) override;
  absl::Status Leave(const StepKey& key, const std::string& waits_at) override;
  absl::StatusOr<StepParts> Parts(const StepKey& key) override;
  absl::StatusOr<StandingOutcome> PutOutcome(const StepKey& key, const std::string& incarnation,
                                             const StepOutcome& outcome) override;
  absl::StatusOr<std::optional<std::string>> Plan(const StepKey& key,
                                                  const std::string& incarnation) override;
  absl::Status MarkServed(const StepKey& key, const std::string& incarnation,
                          const std::vector<uint32_t>& workers) override;
  absl::StatusOr<bool> Restore(const StepKey& key, const WholeStep& whole) override;

  Counts counts();

 private:
  using Keys = std::list<StepKey>;
  using Expiries = std::set<std::pair<Instant, StepKey>>;
  // By worker. Shared, so that they are copied without the lock.
  using Contents = std::map<uint32_t, std::shared_ptr<const std::string>>;

  struct Step {
    std::string incarnation;
    std::string terms;
    uint32_t terms_worker = 0;
    std::string owner;
    Contents parts;
    std::optional<std::string> outcome;
    bool refusal = false;
    // Who plans it, and the plan: each until its own time is over or the step's.
    std::string planner;
    Instant planner_expiry;
    std::string plan;
    Instant plan_expiry;
    // By worker, of world_size.
    std::vector<bool> served;
    size_t served_count = 0;
    // The replicas where somebody waits, and until when.
    std::set<std::string> waits_at;
    Instant waits_until;
    uint64_t bytes = 0;
    // Its places in expiries_, in unplanned_ (without an outcome) and in its owner's steps.
    Expiries::iterator in_expiries;
    Keys::iterator in_unplanned;
    Keys::iterator in_owners;

    size_t world_size() const { return served.size(); }
    bool complete() const { return parts.size() == world_size(); }
  };
  using Steps = std::map<StepKey, Step>;

  struct Owner {
    uint64_t bytes = 0;
    // The one whose last write is longest ago comes first.
    Keys steps;
  };
  using Owners = std::map<std::string, Owner>;

  Steps::iterator FindLive(const StepKey& key) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ForgetExpired() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Forget(Steps::iterator found) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Adds a step, still without parts.
  Steps::iterator Begin(const StepKey& key, const StepPart& first, Expiries::iterator expiry)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Count(Step& step, uint64_t bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool GivesWay(const Step& step) const;
  // Notes that somebody waits at the replica; does nothing if that is empty, or once there is an
  // outcome.
  void Wait(Step& step, const std::string& waits_at) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Has no effect until MoveExpiry makes it the step's, since calls between may fail.
  Expiries::iterator AddExpiry(const StepKey& key, absl::Duration lifetime)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void MoveExpiry(Step& step, Expiries::iterator expiry) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Makes steps give way to `bytes` of `owner` for the step `key`, or returns why not.
  absl::Status MakeRoom(const StepKey& key, const std::string& owner, const std::string& what,
                        uint64_t bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool IsFull(uint64_t bytes) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const MemoryStepStoreOptions options_;
  const Clock clock_;

  Mutex mutex_;
  Steps steps_ ABSL_GUARDED_BY(mutex_);
  // The expiries of all steps; further entries mean nothing.
  Expiries expiries_ ABSL_GUARDED_BY(mutex_);
  // Steps without an outcome, in the order of waits_until.
  Keys unplanned_ ABSL_GUARDED_BY(mutex_);
  // Those that have steps.
  Owners owners_ ABSL_GUARDED_BY(mutex_);
  JobRuns runs_ ABSL_GUARDED_BY(mutex_);
  uint64_t parts_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t bytes_ ABSL_GUARDED_BY(mutex_) = 0;

  ListenerSlot listener_;
};

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_STORE_MEMORY_STEP_STORE_H_
