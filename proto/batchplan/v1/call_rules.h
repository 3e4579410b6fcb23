// What clients do when a call fails: one table for the C++ and the Python client.
//
//   CallAttempts attempts(CallKind::kPlan, limits, timeout);
//   for (;;) {
//     ... one attempt, for at most attempts.Timeout(elapsed) ...
//     const Verdict verdict = attempts.After(code, pushback, elapsed, random);
//     if (verdict.action != Action::kRetry) ...
//     ... wait verdict.wait ...
//   }
//
// clang-format off: the table's lines are lines.
//   status                          plan                with a fallback    join, report
//   UNAVAILABLE, CANCELLED          retry               retry, fall back   retry
//   RESOURCE_EXHAUSTED, told when   retry when it says  retry, fall back   retry when it says
//   RESOURCE_EXHAUSTED, told never  final               fall back          final
//   RESOURCE_EXHAUSTED, not told    a few times         retry, fall back   a few times
//   UNIMPLEMENTED                   a few times         a few, fall back   a few times
//   DEADLINE_EXCEEDED               a few times         fall back          final
//   FAILED_PRECONDITION, INTERNAL,
//   UNKNOWN                         final               fall back          final
//   all others                      final               final              final
// clang-format on
//
// "Retry" goes on until the call's own time is over, through whatever replica is next; "a few
// times" ends after kFewAttempts. A call with a fallback tries as often, begins no attempt later
// than kTimeBeforeFallback or half of its time, and then falls back. "Told" is by the server's
// grpc-retry-pushback-ms. A status whose next attempt would come after the call's time is final, so
// that the caller learns what was wrong rather than that time ran out. CANCELLED is the server's
// here, which ends calls so when it stops; a call that its own caller cancels is over. A mistake in
// TLS, or what a server refuses for want of a token, is final everywhere.
//
// Whether a server hangs is told by pings, never by how long it takes: it plans as long as
// --max_planning_seconds allows, and joins wait for others. Only a plan's attempt has a limit
// beyond that, for what answers pings in the server's place.
//
// gRPC reads from connections only while a call, or a watch of the channel's state, waits;
// otherwise every five seconds: too seldom for pings, whose answers then come late, and for
// connecting again. So a channel is watched all the time (C++: NotifyOnStateChange, Python:
// Channel.subscribe).
//
// Pure: neither clock nor randomness of its own. Not thread-safe; one object for each call.

#ifndef BATCHPLAN_PROTO_V1_CALL_RULES_H_
#define BATCHPLAN_PROTO_V1_CALL_RULES_H_

#include <optional>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace batchplan {

// Channels. A ping after so long without a word from the server, also between calls; the connection
// is lost if no answer comes in time, and its calls are UNAVAILABLE. A replica that went silent
// while nothing was asked of it so costs the next call nothing.
inline constexpr absl::Duration kKeepaliveTime = absl::Seconds(5);
inline constexpr absl::Duration kKeepaliveTimeout = absl::Seconds(5);
// For a connection to be made, TLS and HTTP/2 settings included.
inline constexpr absl::Duration kConnectTimeout = absl::Seconds(5);
// A name is looked up again when a connection is lost or can't be made, but not more often.
inline constexpr absl::Duration kResolveInterval = absl::Seconds(2);

// Attempts. The wait before the n-th retry is random, up to min(initial * 2^(n-1), max).
inline constexpr absl::Duration kInitialBackoff = absl::Milliseconds(100);
inline constexpr absl::Duration kMaxBackoff = absl::Seconds(2);
// More than a server's --max_planning_seconds, 30 by default.
inline constexpr absl::Duration kAttemptTimeout = absl::Seconds(40);
inline constexpr int kFewAttempts = 5;

// Fallbacks. What a call may lose to servers that do not answer; and, once one call found that they
// don't, each later one, which begins by asking grpc.health.v1.Health/Check for so long whether
// they do again.
inline constexpr absl::Duration kTimeBeforeFallback = absl::Seconds(15);
inline constexpr absl::Duration kProbeTimeout = absl::Seconds(1);

enum class CallKind { kPlan, kPlanWithFallback, kJoin, kReport };

// What a client's options say; a limit on attempts only if the caller sets one.
struct CallLimits {
  absl::Duration initial_backoff = kInitialBackoff;
  absl::Duration max_backoff = kMaxBackoff;
  absl::Duration attempt_timeout = kAttemptTimeout;
  std::optional<int> max_attempts = {};
};

enum class Action { kRetry, kReturn, kFallBack };

struct Verdict {
  Action action = Action::kReturn;
  // Before the next attempt, for kRetry.
  absl::Duration wait = absl::ZeroDuration();
};

class CallAttempts {
 public:
  // A call that may take `timeout`, maybe infinite. Its times are counted from its beginning.
  CallAttempts(CallKind kind, const CallLimits& limits, absl::Duration timeout);

  // How long the attempt that begins at `elapsed` may take: never more than is left of the call.
  absl::Duration Timeout(absl::Duration elapsed) const;

  // What follows from an attempt's `code`, which is not OK. `pushback` is the server's, negative
  // for never; `random` is uniform in [0, 1).
  Verdict After(absl::StatusCode code, std::optional<absl::Duration> pushback,
                absl::Duration elapsed, double random);

  int attempts() const { return attempts_; }

 private:
  const CallKind kind_;
  const CallLimits limits_;
  const absl::Duration timeout_;
  // The end of what the primary gets; infinite without a fallback.
  const absl::Duration give_up_;
  // Those that have ended, and those of them that are tried a few times only.
  int attempts_ = 0;
  int few_ = 0;
  absl::Duration backoff_;
};

// Whether a RESOURCE_EXHAUSTED with this message is gRPC's, on either side, for a message beyond
// the limit: to be taken as told never.
bool IsTooLarge(absl::string_view message);

// Whether a plan is made by the fallback where its call ended so, as the table says.
bool FallsBack(absl::StatusCode code);

// Whether a status says that no server answered, or that one could not finish answering: where a
// call with a fallback ends so, later ones probe before they try. Any other status is an answer.
bool IsNoAnswer(absl::StatusCode code);

}  // namespace batchplan

#endif  // BATCHPLAN_PROTO_V1_CALL_RULES_H_
