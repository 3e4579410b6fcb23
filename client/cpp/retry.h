// A call as a row of attempts, by the rules of proto/batchplan/v1/call_rules.h.
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
  // What the server said of the next attempt, for RESOURCE_EXHAUSTED: negative for never.
  std::optional<absl::Duration> pushback = {};
};

// Time and chance, so that tests need neither wait nor guess.
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

// Makes attempts, each of which is told how long it may take, until one is OK or the rules say that
// the call is over: the last one's status then. Where it is that time ran out, it is joined to what
// was wrong before; or gives way to that, if the attempt had less than a tenth of the call's time.
// Blocks between attempts.
absl::Status CallInAttempts(CallKind kind, const CallLimits& limits, absl::Duration timeout,
                            RetryClock& clock,
                            const std::function<AttemptEnd(absl::Duration timeout)>& attempt);

}  // namespace batchplan

#endif  // BATCHPLAN_CLIENT_CPP_RETRY_H_
