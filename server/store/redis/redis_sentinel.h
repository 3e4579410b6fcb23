// Connects to a Redis, directly or to the master that its Sentinels name.
//
//   absl::StatusOr<std::unique_ptr<RedisConnection>> connection = OpenRedis(address, deadline);
//
// Sentinels are asked in turn until one knows the master; each gets an equal part of the time left.
// Every new connection goes to the current master, so that callers find a new master as soon as a
// Sentinel knows it. A Sentinel that asks for a password gets the one of Redis.

#ifndef BATCHPLAN_SERVER_STORE_REDIS_REDIS_SENTINEL_H_
#define BATCHPLAN_SERVER_STORE_REDIS_REDIS_SENTINEL_H_

#include <memory>

#include "absl/status/statusor.h"
#include "server/base/clock.h"
#include "server/store/redis/redis_address.h"
#include "server/store/redis/redis_connection.h"

namespace batchplan {

// Like RedisConnection::Open, for any address. Unavailable, with each Sentinel's answer, if none
// knows the master; FailedPrecondition if all of them answered that they know no master of this
// name.
absl::StatusOr<std::unique_ptr<RedisConnection>> OpenRedis(const RedisAddress& address,
                                                           Instant deadline, int wake = -1);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_STORE_REDIS_REDIS_SENTINEL_H_
