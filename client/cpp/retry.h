// A call as a series of attempts, by the rules of proto/batchplan/v1/call_rules.h.
//
//   absl::Status status = CallInAttempts(CallKind::kPlan, limits, timeout, RealRetryClock(),
//                                        [&](absl::Duration timeout) { ... return AttemptEnd{...};
//                                        });

#ifndef BATCHPLAN_CLIENT_CPP_RETRY_H_
#define BATCHPLAN_CLIENT_CPP_RETRY_H_

#include <functional>
#include <optional>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "proto/batchplan/v1/call_rules.h"

namespace batchplan {

struct AttemptEnd {
  absl::Status status;
  // For RESOURCE_EXHAUSTED, when the server wants the next attempt; negative: never.
  std::optional<absl::Duration> pushback = {};
};

// Time and random numbers, which tests replace.
class RetryClock {
 public:
  virtual ~RetryClock() = default;

  // Since some fixed moment; never goes back.
  virtual absl::Duration Now() = 0;
  virtual void Sleep(absl::Duration duration) = 0;
  // Uniform in [0, 1).
  virtual double Random() = 0;
};

// Thread-safe.
RetryClock& RealRetryClock();

// Makes attempts, each with its time limit, until one is OK or the rules say that the call is over;
// returns the last status. If the last attempt ran out of time, its status is joined to the error
// before, or replaced by that if the attempt had less than a tenth of the call's time. Blocks
// between attempts.
absl::Status CallInAttempts(CallKind kind, const CallLimits& limits, absl::Duration timeout,
                            RetryClock& clock,
                            const std::function<AttemptEnd(absl::Duration timeout)>& attempt);

}  // namespace batchplan

#endif  // BATCHPLAN_CLIENT_CPP_RETRY_H_
