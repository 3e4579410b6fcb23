// The steps that a replica has planned, so that it can put one back into a store that lost it.
//
//   PlannedSteps planned(/*max_bytes=*/128 << 20, absl::Minutes(10));
//   planned.Remember(key, step, now);
//   std::shared_ptr<const WholeStep> step = planned.Take(key, now);   // null: not known, or taken
//   ... offer it to the store ...
//   planned.Return(key, /*keep=*/true);
//
// A step is remembered for the lifetime, and as long as later steps leave room. Not thread-safe.
// O(log steps) a call.

#ifndef BATCHPLAN_SERVER_RENDEZVOUS_PLANNED_STEPS_H_
#define BATCHPLAN_SERVER_RENDEZVOUS_PLANNED_STEPS_H_

#include <cstdint>
#include <list>
#include <map>
#include <memory>

#include "absl/time/time.h"
#include "server/base/clock.h"
#include "server/store/step_store.h"

namespace batchplan {

class PlannedSteps {
 public:
  PlannedSteps(uint64_t max_bytes, absl::Duration lifetime)
      : max_bytes_(max_bytes), lifetime_(absl::ToChronoNanoseconds(lifetime)) {}

  // Remembers the step, in place of what is remembered of it, unless it is larger than max_bytes.
  void Remember(const StepKey& key, std::shared_ptr<const WholeStep> step, Instant now);

  // Whether the step is remembered, taken or not.
  bool Has(const StepKey& key, Instant now) const;

  // The step, for one caller at a time: null until it is returned or remembered anew.
  std::shared_ptr<const WholeStep> Take(const StepKey& key, Instant now);
  // Returns the step; forgets it unless `keep`. Does nothing if it is not taken.
  void Return(const StepKey& key, bool keep);

  uint64_t bytes() const { return bytes_; }

 private:
  struct Entry {
    std::shared_ptr<const WholeStep> step;
    uint64_t bytes = 0;
    Instant expiry;
    bool taken = false;
    std::list<StepKey>::iterator in_order;
  };
  using Entries = std::map<StepKey, Entry>;

  void Forget(Entries::iterator entry);

  const uint64_t max_bytes_;
  const Instant::duration lifetime_;
  Entries entries_;
  // The first is the one remembered first.
  std::list<StepKey> order_;
  uint64_t bytes_ = 0;
};

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_RENDEZVOUS_PLANNED_STEPS_H_
