// What the error replies of a Redis mean to those who wait for a step.

#ifndef BATCHPLAN_SERVER_STORE_REDIS_REDIS_ERROR_H_
#define BATCHPLAN_SERVER_STORE_REDIS_REDIS_ERROR_H_

#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace batchplan {

// The error reply `text` as a status with that text, cut to a message's length:
//   ResourceExhausted    there is no memory left
//   Unavailable          what passes by itself: loading, fail-over, a busy script, too many clients
//   FailedPrecondition   what a person has to put right: password, rights, protected mode, cluster.
//                        Clients retry Unavailable and would hide the reason until they give up
//   Internal             everything else; a script or a key is not what it should be
// An error from within a script counts as what it is, also where an older Redis wraps it.
absl::Status StatusFromRedisError(std::string_view text);

// `status`, of a connection or of an error reply, as callers of the store get it: with the store's
// name, what depends on it and what to do. DeadlineExceeded becomes Unavailable.
absl::Status ExplainRedisFailure(const std::string& redacted_url, const absl::Status& status);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_STORE_REDIS_REDIS_ERROR_H_
