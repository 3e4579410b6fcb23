// A StepStore in this process's memory: the default, for one replica alone.
//
//   MemoryStepStore store({.max_bytes = int64_t{1} << 30}, std::chrono::steady_clock::now);
//
// A step costs its parts, its terms and its outcome, and a little for the maps around them. Past
// max_bytes a part or an outcome is refused with ResourceExhausted, after steps whose time is over
// have been forgotten; nothing is forgotten early to make room. A call takes O(log steps + log
// parts) and a copy of what it returns, and never blocks but on other calls' bookkeeping. One that
// throws std::bad_alloc has left everything as it was, or has done what it was to do.

#ifndef BATCHPLAN_SERVER_STORE_MEMORY_STEP_STORE_H_
#define BATCHPLAN_SERVER_STORE_MEMORY_STEP_STORE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "server/store/clock.h"
#include "server/store/listener_slot.h"
#include "server/store/step_store.h"

namespace batchplan {

struct MemoryStepStoreOptions {
  StepStoreOptions lifetimes;
  // --rendezvous_memory_bytes.
  int64_t max_bytes = int64_t{1} << 30;
};

class MemoryStepStore : public StepStore {
 public:
  // What is held now, as metrics show it.
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
  absl::StatusOr<StepProgress> Progress(const StepKey& key) override;
  absl::StatusOr<std::vector<std::string>> Parts(const StepKey& key) override;
  absl::StatusOr<std::string> PutOutcome(const StepKey& key, const std::string& outcome) override;

  Counts counts();

 private:
  struct Step {
    std::string terms;
    uint32_t terms_worker = 0;
    uint32_t world_size = 0;
    // By worker. Shared, so that they are copied without the lock.
    std::map<uint32_t, std::shared_ptr<const std::string>> parts;
    std::optional<std::string> outcome;
    Instant expiry;
    uint64_t bytes = 0;

    bool complete() const { return parts.size() == world_size; }
  };
  using Steps = std::map<StepKey, Step>;

  // All under mutex_.
  Steps::iterator FindLive(const StepKey& key);
  void ForgetExpired();
  // Means nothing until MoveExpiry makes it the step's: what comes between may still fail.
  Instant AddExpiry(const StepKey& key, absl::Duration lifetime);
  void MoveExpiry(const StepKey& key, Step& step, Instant expiry);
  absl::Status CheckRoom(const StepKey& key, const std::string& what, uint64_t bytes) const;

  const MemoryStepStoreOptions options_;
  const Clock clock_;

  std::mutex mutex_;
  Steps steps_;
  // Those of all steps; any others mean nothing.
  std::set<std::pair<Instant, StepKey>> expiries_;
  uint64_t parts_ = 0;
  uint64_t bytes_ = 0;

  ListenerSlot listener_;
};

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_STORE_MEMORY_STEP_STORE_H_
