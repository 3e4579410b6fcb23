// The store of steps that workers join, which replicas share: terms, parts and outcome of each
// step.
//
//   absl::StatusOr<PartReceipt> receipt = store.PutPart(key, part);
//   ... once receipt->complete, on any replica ...
//   absl::StatusOr<StepParts> parts = store.Parts(key);
//   absl::StatusOr<StandingOutcome> stands = store.PutOutcome(key, parts->incarnation, mine);
//   ... once workers have been sent their plan ...
//   absl::Status status = store.MarkServed(key, parts->incarnation, {0, 1});
//
// One replica plans for all: the first that asks for the progress of a complete step, with a worker
// that waits, is named to the others as its planner for StepStoreOptions.planning, and may leave
// the plan beside the outcome for them. Both spare work and bind nobody: the planner may be gone,
// and a plan may not be kept.
//
// To the store, terms, contents and outcomes are bytes. A step begins with its first part, whose
// terms are the step's. It is forgotten when no part has come for its time to live, or after it got
// its outcome, when its retention is over. Calls are atomic: all replicas see them in one order.
//
// A step gives way to a part with other terms, or with another content than the worker's earlier
// part, and begins anew with it
//   - if all of its workers have been served,
//   - if its outcome is a refusal,
//   - if it has no outcome and nobody waits for it.
// Otherwise the part is refused. Each beginning is another incarnation of the step, with a name of
// its own: calls for one never affect another.
//
// Replicas say who waits by their calls for waiting workers; it holds for StepStoreOptions.waiting,
// within which they call again.
//
// The runs of a job are noted in the order in which their first parts come. The latest is the
// current run, and has superseded the others for good: their parts are refused. That holds even if
// the store is lost, as long as a replica lives that saw the order.
//
// Thread-safe. Calls may block on a network, for a bounded time. Errors: Unavailable if the store
// can't be reached, saying what to do; ResourceExhausted if it has no room. A failed call may have
// taken effect; all calls can be repeated.

#ifndef BATCHPLAN_SERVER_STORE_STEP_STORE_H_
#define BATCHPLAN_SERVER_STORE_STEP_STORE_H_

#include <compare>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/base/mutex.h"

namespace batchplan {

struct StepKey {
  std::string job_id;
  uint64_t step = 0;
  // Empty: no run. Such steps are apart from those of all runs.
  std::string run_id = {};

  // clang-tidy mistakes the 0 that the compiler compares with for a null pointer.
  friend auto operator<=>(const StepKey&,
                          const StepKey&) = default;  // NOLINT(modernize-use-nullptr)
};

// For messages: step 7 of job "grpo-7b", or step 7 of job "grpo-7b", run "slurm-31.0".
std::string DescribeStep(const StepKey& key);

// NotFound, for a step that is not complete, or not in this incarnation.
absl::Status NotCompleteError(const StepKey& key);

struct StepPart {
  uint32_t worker = 0;
  // At least 1, and larger than `worker`; equal in parts of equal terms.
  uint32_t world_size = 1;
  // What all parts of a step must have in common, and this worker's own content.
  std::string terms;
  std::string content;
  // The replica at which its worker waits; empty: it does not.
  std::string waits_at = {};
  // The owner for whom a step that begins with this part counts, in stores with a share for each.
  std::string owner = {};
};

// A store's answer to a part.
struct PartReceipt {
  enum class Verdict {
    // The worker's part is in, by this call or by an earlier one with the same content.
    kAccepted,
    // The step has other terms; nothing was stored.
    kOtherTerms,
    // The worker's part is in, with another content; nothing was stored.
    kOtherContent,
    // The job has a later run; nothing was stored.
    kSuperseded,
  };
  Verdict verdict = Verdict::kAccepted;
  // With kOtherTerms: the step's terms, and the worker whose part brought them.
  std::string terms;
  uint32_t terms_worker = 0;
  // With kSuperseded: the job's current run.
  std::string current_run;
  // With kAccepted: the step's incarnation, whether all parts are in, and the outcome once there is
  // one.
  std::string incarnation;
  bool complete = false;
  std::optional<std::string> outcome;
};

struct StepProgress {
  // The job's current run if it has superseded the step's; nothing else is then set.
  std::optional<std::string> current_run;
  std::string incarnation;
  // The workers whose parts are in, ascending; none if the step is not known (any more).
  std::vector<uint32_t> arrived;
  bool complete = false;
  std::optional<std::string> outcome;
  // Of a step that is complete and has no outcome: the replica that plans it, if any has begun.
  std::string planner = {};
};

struct StepParts {
  std::string incarnation;
  // By worker.
  std::vector<std::string> contents;
};

struct StepOutcome {
  std::string bytes;
  // Whether it says why there is no plan.
  bool refusal = false;
  // The plan, for other replicas, who may read it for a while. Empty: none.
  std::string_view plan = {};
};

struct StandingOutcome {
  std::string bytes;
  // Whether this call wrote it.
  bool written = false;
};

// All of a planned step.
struct WholeStep {
  std::string terms;
  // By worker.
  std::vector<std::string> contents;
  std::string outcome;
};

struct StepStoreOptions {
  // How long a step lives after its last part came, and after it got its outcome.
  absl::Duration time_to_live = absl::Minutes(10);
  absl::Duration retention = absl::Minutes(10);
  // How long it holds that somebody waits at a replica, after its call.
  absl::Duration waiting = absl::Seconds(5);
  // How long a replica that said so is believed to plan a step. Then the next one may.
  absl::Duration planning = absl::Seconds(2);
  // How long a plan is kept for other replicas: a moment is enough for those that wait.
  absl::Duration plan_lifetime = absl::Seconds(30);
  // How long a job's runs are remembered after its last part came.
  absl::Duration run_lifetime = absl::Hours(24);
};

// This many of the latest runs of a job are remembered.
inline constexpr size_t kMaxRunsOfAJob = 64;

// Events of a step that a listener is told of.
enum class StepEvent {
  // It may have become complete or got its outcome.
  kChanged,
  // Somebody waits for it, and parts are missing.
  kIncomplete,
};

class StepStore {
 public:
  using Listener = std::function<void(const StepKey&, StepEvent)>;

  virtual ~StepStore() = default;

  // Sets the listener to events through any replica; null: none. An event is only a hint: it may
  // come late, twice, for a step that nobody here waits for, or not at all. It comes on any thread,
  // also from within the other calls, with no lock held. Once this returns, the previous listener
  // is not called any more.
  virtual void SetListener(Listener listener) = 0;

  // Offers a part, and says that its worker waits.
  virtual absl::StatusOr<PartReceipt> PutPart(const StepKey& key, const StepPart& part) = 0;

  // Says that somebody waits at the replica `waits_at`, unless that is empty, and that it will plan
  // the step if that is complete and nobody else is believed to.
  virtual absl::StatusOr<StepProgress> Progress(const StepKey& key,
                                                const std::string& waits_at) = 0;

  // Says that nobody waits at the replica any more.
  virtual absl::Status Leave(const StepKey& key, const std::string& waits_at) = 0;

  // NotFound unless the step is complete.
  virtual absl::StatusOr<StepParts> Parts(const StepKey& key) = 0;

  // Sets the outcome of this incarnation of the step unless it has one; returns the outcome that
  // stands. NotFound unless the step is of this incarnation, and complete. Its plan is kept only
  // with the outcome that stands, and if there is room.
  virtual absl::StatusOr<StandingOutcome> PutOutcome(const StepKey& key,
                                                     const std::string& incarnation,
                                                     const StepOutcome& outcome) = 0;

  // The plan that came with the outcome of this incarnation, if it is kept.
  virtual absl::StatusOr<std::optional<std::string>> Plan(const StepKey& key,
                                                          const std::string& incarnation) = 0;

  // Notes that these workers of a step with an outcome have been sent its plan. Does nothing if the
  // step is of another incarnation.
  virtual absl::Status MarkServed(const StepKey& key, const std::string& incarnation,
                                  const std::vector<uint32_t>& workers) = 0;

  // Puts a step back that the store has lost, with its outcome: all that is missing, at once.
  // False, changing nothing, if there is a step with other terms or contents in its place.
  virtual absl::StatusOr<bool> Restore(const StepKey& key, const WholeStep& step) = 0;
};

// For implementations of StepStore: its listener, which can be replaced while it runs.
//
//   slot.Set(listener);     // returns once the one before is not running any more
//   slot.Call(key, event);
//
// Thread-safe. No lock is held while the listener runs, and any number of threads may run it.
class ListenerSlot {
 public:
  // Null: none. Not from within the listener that is replaced.
  void Set(StepStore::Listener listener);

  // Exceptions of the listener reach the caller.
  void Call(const StepKey& key, StepEvent event);

 private:
  struct Counted {
    StepStore::Listener listener;
    // Calls under way. Under the slot's mutex_.
    int calls = 0;
  };

  Mutex mutex_;
  std::condition_variable_any idle_;
  // Null: nobody listens.
  std::shared_ptr<Counted> current_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_STORE_STEP_STORE_H_
