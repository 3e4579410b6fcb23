// The way to a Redis: straight, or by what its Sentinels say.
//
//   absl::StatusOr<std::unique_ptr<RedisConnection>> connection = OpenRedis(address, deadline);
//
// Sentinels are asked in turn, each for a fair part of the time that is left, until one knows the
// master; so every connection begins with the master of its time, and who loses one finds the next
// master as soon as a Sentinel knows it. One that asks for a password gets that of the Redis.

#ifndef BATCHPLAN_SERVER_STORE_REDIS_REDIS_SENTINEL_H_
#define BATCHPLAN_SERVER_STORE_REDIS_REDIS_SENTINEL_H_

#include <memory>

#include "absl/status/statusor.h"
#include "server/base/clock.h"
#include "server/store/redis/redis_address.h"
#include "server/store/redis/redis_connection.h"

namespace batchplan {

// As RedisConnection::Open, for any address. Unavailable, saying what each Sentinel answered, if
// none knows the master; FailedPrecondition if all of them answered that they know none of its
// name.
absl::StatusOr<std::unique_ptr<RedisConnection>> OpenRedis(const RedisAddress& address,
                                                           Instant deadline, int wake = -1);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_STORE_REDIS_REDIS_SENTINEL_H_
