// What replicas share of a step that workers join: its terms, its parts and its outcome.
//
//   absl::StatusOr<PartReceipt> receipt = store.PutPart(key, part);
//   ... once receipt->complete, on any replica ...
//   absl::StatusOr<std::vector<std::string>> parts = store.Parts(key);
//   absl::StatusOr<std::string> outcome = store.PutOutcome(key, mine);  // the first writer's
//
// The store knows no plan: terms, contents and outcomes are bytes to it. A step begins with its
// first part, whose terms are the step's; it is forgotten when no part has come for its time to
// live, and once it has an outcome, when its retention is over. Each call is atomic: whatever
// replicas do at the same time, they see one order of calls, the same for all.
//
// Thread-safe. Calls may block on a network, for a bounded time. Errors: Unavailable if the store
// can't be reached, saying what to do; ResourceExhausted if it has no room; whether a call that
// failed took effect is not known, and all of them can be repeated.

#ifndef BATCHPLAN_SERVER_STORE_STEP_STORE_H_
#define BATCHPLAN_SERVER_STORE_STEP_STORE_H_

#include <compare>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace batchplan {

struct StepKey {
  std::string job_id;
  uint64_t step = 0;

  // clang-tidy takes the 0 that the compiler compares with for a null pointer.
  friend auto operator<=>(const StepKey&,
                          const StepKey&) = default;  // NOLINT(modernize-use-nullptr)
};

// For messages: step 7 of job "grpo-7b".
std::string DescribeStep(const StepKey& key);

// What a store says of a step that is not complete: NotFound.
absl::Status NotCompleteError(const StepKey& key);

struct StepPart {
  uint32_t worker = 0;
  // At least 1, and larger than `worker`; equal in parts of equal terms.
  uint32_t world_size = 1;
  // What all parts of a step must have in common, and what is this worker's own.
  std::string terms;
  std::string content;
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
  };
  Verdict verdict = Verdict::kAccepted;
  // With kOtherTerms: those of the step, and the worker whose part brought them.
  std::string terms;
  uint32_t terms_worker = 0;
  // With kAccepted: whether all parts are in, and the outcome once there is one.
  bool complete = false;
  std::optional<std::string> outcome;
};

struct StepProgress {
  // The workers whose parts are in, ascending; none if the step is not known (any more).
  std::vector<uint32_t> arrived;
  bool complete = false;
  std::optional<std::string> outcome;
};

struct StepStoreOptions {
  // How long a step lives after its last part came, and after it got its outcome.
  absl::Duration time_to_live = absl::Minutes(10);
  absl::Duration retention = absl::Minutes(10);
};

class StepStore {
 public:
  using Listener = std::function<void(const StepKey&)>;

  virtual ~StepStore() = default;

  // Has `listener` called whenever a step may have become complete or got its outcome, through any
  // replica; null: nobody, any more. A hint: it may come late, twice, for a step that nobody here
  // waits for, or be lost. Called from any thread, also from within PutPart and PutOutcome, and
  // with no lock held. Not called any more once a later SetListener has returned.
  virtual void SetListener(Listener listener) = 0;

  // Offers a part.
  virtual absl::StatusOr<PartReceipt> PutPart(const StepKey& key, const StepPart& part) = 0;

  virtual absl::StatusOr<StepProgress> Progress(const StepKey& key) = 0;

  // The contents of all parts, by worker. NotFound unless the step is complete.
  virtual absl::StatusOr<std::vector<std::string>> Parts(const StepKey& key) = 0;

  // Gives the step its outcome unless it has one; returns the one that stands from then on.
  // NotFound unless the step is complete.
  virtual absl::StatusOr<std::string> PutOutcome(const StepKey& key,
                                                 const std::string& outcome) = 0;
};

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_STORE_STEP_STORE_H_
