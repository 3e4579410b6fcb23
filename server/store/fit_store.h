// The fits of jobs, which replicas share: a state for each job, replaced by compare-and-swap.
//
//   for (;;) {
//     absl::StatusOr<StoredFit> fit = store.Get(job);
//     ... fold a report into fit->state ...
//     absl::StatusOr<bool> replaced = store.Replace(job, fit->version, state, owner);
//     if (replaced.ok() && *replaced) break;   // else another replica was first: again
//   }
//
// To the store a state is bytes. Thread-safe. Calls may block on a network, for a bounded time.
// Unavailable if the store can't be reached, saying what to do; ResourceExhausted if it has no
// room.

#ifndef BATCHPLAN_SERVER_STORE_FIT_STORE_H_
#define BATCHPLAN_SERVER_STORE_FIT_STORE_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

namespace batchplan {

struct StoredFit {
  // Empty, with version 0, for a job without a state.
  std::string state;
  uint64_t version = 0;
};

class FitStore {
 public:
  virtual ~FitStore() = default;

  virtual absl::StatusOr<StoredFit> Get(const std::string& job_id) = 0;

  // Replaces the state if its version still is `version`; false, changing nothing, if it isn't.
  // `owner` is the reporter's (authentication.h): a store that must forget jobs forgets those of
  // the owner with most.
  virtual absl::StatusOr<bool> Replace(const std::string& job_id, uint64_t version,
                                       const std::string& state, const std::string& owner) = 0;
};

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_STORE_FIT_STORE_H_
