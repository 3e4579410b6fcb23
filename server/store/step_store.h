// What replicas share of a step that workers join: its terms, its parts and its outcome.
//
//   absl::StatusOr<PartReceipt> receipt = store.PutPart(key, part);
//   ... once receipt->complete, on any replica ...
//   absl::StatusOr<StepParts> parts = store.Parts(key);
//   absl::StatusOr<StandingOutcome> stands = store.PutOutcome(key, parts->incarnation, mine);
//   ... once workers have been sent their plan ...
//   absl::Status status = store.MarkServed(key, parts->incarnation, {0, 1});
//
// The store knows no plan: terms, contents and outcomes are bytes to it. A step begins with its
// first part, whose terms are the step's; it is forgotten when no part has come for its time to
// live, and once it has an outcome, when its retention is over. Each call is atomic: whatever
// replicas do at the same time, they see one order of calls, the same for all.
//
// A step gives way to a part that has other terms, or another content than the worker's part that
// is in, and begins anew with it
//   - if all of its workers have been served,
//   - if its outcome is a refusal,
//   - if it has no outcome and nobody waits for it.
// Otherwise the part is refused. Each beginning is another incarnation of the step, with a name of
// its own: what is meant for one never reaches another.
//
// Replicas say who waits by the calls that they make for their waiting workers; it holds for
// StepStoreOptions.waiting, in which they call again.
//
// The runs of a job are noted in the order in which their first parts come. The latest one is the
// current run, and has superseded the others for good: their parts are refused. That holds though
// what replicas share is lost, as long as one of them lives that saw the order.
//
// Thread-safe. Calls may block on a network, for a bounded time. Errors: Unavailable if the store
// can't be reached, saying what to do; ResourceExhausted if it has no room; whether a call that
// failed took effect is not known, and all of them can be repeated.

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
  // Empty: of no run. Such steps are apart from those of all runs.
  std::string run_id = {};

  // clang-tidy takes the 0 that the compiler compares with for a null pointer.
  friend auto operator<=>(const StepKey&,
                          const StepKey&) = default;  // NOLINT(modernize-use-nullptr)
};

// For messages: step 7 of job "grpo-7b", or step 7 of job "grpo-7b", run "slurm-31.0".
std::string DescribeStep(const StepKey& key);

// What a store says of a step that is not complete, or not in this incarnation: NotFound.
absl::Status NotCompleteError(const StepKey& key);

struct StepPart {
  uint32_t worker = 0;
  // At least 1, and larger than `worker`; equal in parts of equal terms.
  uint32_t world_size = 1;
  // What all parts of a step must have in common, and what is this worker's own.
  std::string terms;
  std::string content;
  // The replica at which its worker waits; empty: it does not.
  std::string waits_at = {};
  // Whom a step that begins with this part is counted for, where a store has a share for each.
  std::string owner = {};
};

// What a store says to a part.
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
  // With kOtherTerms: those of the step, and the worker whose part brought them.
  std::string terms;
  uint32_t terms_worker = 0;
  // With kSuperseded: the job's current run.
  std::string current_run;
  // With kAccepted: that of the step, whether all parts are in, and the outcome once there is one.
  std::string incarnation;
  bool complete = false;
  std::optional<std::string> outcome;
};

struct StepProgress {
  // Set if the run of the step is superseded: the job's current run, and nothing else.
  std::optional<std::string> current_run;
  std::string incarnation;
  // The workers whose parts are in, ascending; none if the step is not known (any more).
  std::vector<uint32_t> arrived;
  bool complete = false;
  std::optional<std::string> outcome;
};

struct StepParts {
  std::string incarnation;
  // By worker.
  std::vector<std::string> contents;
};

struct StepOutcome {
  std::string bytes;
  // It says why there is no plan.
  bool refusal = false;
};

struct StandingOutcome {
  std::string bytes;
  // Whether this call wrote it.
  bool written = false;
};

// All that there is to know of a step that was planned.
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
  // How long a replica's call says that somebody waits there.
  absl::Duration waiting = absl::Seconds(5);
  // How long a job's runs are remembered after its last part came.
  absl::Duration run_lifetime = absl::Hours(24);
};

// Of the runs of a job, so many of the latest are remembered.
inline constexpr size_t kMaxRunsOfAJob = 64;

// What a listener may be told of a step.
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

  // From now on `listener` is called for what happens through any replica; null: nobody is. A call
  // is only a hint: it may come late, twice, for a step that nobody here waits for, or not at all.
  // It comes from any thread, also from within the other calls, and with no lock held. Once this
  // returns, the listener before is not called any more.
  virtual void SetListener(Listener listener) = 0;

  // Offers a part, and says that its worker waits.
  virtual absl::StatusOr<PartReceipt> PutPart(const StepKey& key, const StepPart& part) = 0;

  // Says that somebody waits at the replica `waits_at`, unless that is empty.
  virtual absl::StatusOr<StepProgress> Progress(const StepKey& key,
                                                const std::string& waits_at) = 0;

  // Nobody waits at the replica any more.
  virtual absl::Status Leave(const StepKey& key, const std::string& waits_at) = 0;

  // NotFound unless the step is complete.
  virtual absl::StatusOr<StepParts> Parts(const StepKey& key) = 0;

  // Gives this incarnation of the step its outcome unless it has one; returns the one that stands
  // from then on. NotFound unless the step is of this incarnation, and complete.
  virtual absl::StatusOr<StandingOutcome> PutOutcome(const StepKey& key,
                                                     const std::string& incarnation,
                                                     const StepOutcome& outcome) = 0;

  // These workers of a step with an outcome have been sent its plan. Nothing if the step is of
  // another incarnation.
  virtual absl::Status MarkServed(const StepKey& key, const std::string& incarnation,
                                  const std::vector<uint32_t>& workers) = 0;

  // Puts a step back that the store has lost, with its outcome: all of what is missing, at once.
  // False, changing nothing, if there is another one in its place, with other terms or contents.
  virtual absl::StatusOr<bool> Restore(const StepKey& key, const WholeStep& step) = 0;
};

// The one listener of a step store, replaced while it may be running: for those who implement one.
//
//   slot.Set(listener);     // returns once the one before is not running any more
//   slot.Call(key, event);
//
// Thread-safe. No lock is held while the listener runs, and any number of threads may run it.
class ListenerSlot {
 public:
  // Null: nobody. Not from within the listener that is replaced.
  void Set(StepStore::Listener listener);

  // What the listener throws goes on to the caller.
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
