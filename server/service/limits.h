// The limits on what one request may ask, checked on its outline before anything of it is parsed.
//
//   absl::Status status = CheckLimits(outline, limits);
//
// What a request may ask beyond its size, the planner's options check.

#ifndef BATCHPLAN_SERVER_SERVICE_LIMITS_H_
#define BATCHPLAN_SERVER_SERVICE_LIMITS_H_

#include <cstdint>

#include "absl/status/status.h"
#include "server/base/ids.h"
#include "server/service/request_outline.h"

namespace batchplan {

struct RequestLimits {
  // Each counted once a pass. Twice the largest batches of today; a plan of these takes seconds,
  // and with the answer about 200 MiB beyond 50 times the request's own bytes.
  uint64_t max_sequences = 2 << 20;
};

// InvalidArgument, naming field, value and limit, if there are too many sequences, passes, empty
// micro-batches or reported ones, or an id is none (text/ids.h).
absl::Status CheckLimits(const RequestOutline& outline, const RequestLimits& limits);

// ResourceExhausted, never to be tried again, naming size and limit, if the whole plan of a request
// is known to take more than a message may have.
absl::Status CheckAnswerFits(const RequestOutline& outline, uint64_t max_message_bytes);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_SERVICE_LIMITS_H_
