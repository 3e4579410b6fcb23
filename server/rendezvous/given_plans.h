// The plans that joins were answered with, for workers that ask again.
//
//   GivenPlans given(/*max_bytes=*/64 << 20, absl::Minutes(10));
//   GivenPlans::Plans dropped = given.Keep(
//       {.joined = joined, .bytes = joined->bytes(), .expiry = {}}, now);
//   std::shared_ptr<const JoinedPlan> joined = given.Find(key, incarnation, now);   // null: not
//   kept
//
// A plan is kept for the lifetime, and as long as later plans leave room; of a step the last one.
// Not thread-safe. O(log steps) a call, and for Keep the number of plans that it drops.

#ifndef BATCHPLAN_SERVER_RENDEZVOUS_GIVEN_PLANS_H_
#define BATCHPLAN_SERVER_RENDEZVOUS_GIVEN_PLANS_H_

#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <string_view>

#include "absl/time/time.h"
#include "server/base/clock.h"
#include "server/rendezvous/joined_plan.h"
#include "server/store/step_store.h"

namespace batchplan {

class GivenPlans {
 public:
  struct Given {
    std::shared_ptr<const JoinedPlan> joined;
    uint64_t bytes = 0;
    Instant expiry = {};
  };
  using Plans = std::list<Given>;

  GivenPlans(uint64_t max_bytes, absl::Duration lifetime)
      : max_bytes_(max_bytes), lifetime_(absl::ToChronoNanoseconds(lifetime)) {}

  // Sets its expiry, and keeps the plan in place of an earlier one of its step, unless it is larger
  // than max_bytes. What is not kept is returned: large plans take milliseconds to free.
  [[nodiscard]] Plans Keep(Given plan, Instant now);

  std::shared_ptr<const JoinedPlan> Find(const StepKey& key, std::string_view incarnation,
                                         Instant now) const;

  uint64_t bytes() const { return bytes_; }

 private:
  void Forget(Plans::iterator plan, Plans& dropped);

  const uint64_t max_bytes_;
  const Instant::duration lifetime_;
  // The first is the one kept first.
  Plans plans_;
  std::map<StepKey, Plans::iterator> places_;
  uint64_t bytes_ = 0;
};

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_RENDEZVOUS_GIVEN_PLANS_H_
