#include "server/store/redis/redis_stores.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/store/redis/redis_connection.h"
#include "server/store/redis/redis_fit_store.h"
#include "server/store/redis/redis_sentinel.h"
#include "server/store/redis/redis_step_store.h"
#include "server/store/redis/redis_subscriber.h"

namespace batchplan {
namespace {

// Whether the Redis is part of a cluster, which refuses commands with keys of two slots; false if
// none answers.
bool IsCluster(const RedisAddress& address, Instant deadline) {
  absl::StatusOr<std::unique_ptr<RedisConnection>> connection = OpenRedis(address, deadline);
  if (!connection.ok()) return false;
  const absl::StatusOr<RedisReply> reply =
      (*connection)->Call({"EXISTS", "batchplan:v1:a", "batchplan:v1:b"}, deadline);
  return reply.ok() && (*reply)->type == REDIS_REPLY_ERROR && IsOfRedisCluster(RedisBytes(**reply));
}

}  // namespace

absl::StatusOr<RedisStores> OpenRedisStores(RedisAddress address,
                                            const RedisStoresOptions& options) {
  if (IsCluster(address, std::chrono::steady_clock::now() +
                             absl::ToChronoNanoseconds(options.client.connect_timeout))) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the rendezvous store ", address.Redacted(),
        " is a Redis Cluster, whose nodes each have some of the keys; --rendezvous_store must be "
        "one Redis (redis://), with Sentinels for its fail-over (redis+sentinel://)"));
  }
  auto client = std::make_shared<RedisClient>(std::move(address), options.client);
  auto fits = std::make_shared<RedisFits>(client, options.fit_retention);
  const RedisSubscriberOptions subscriber = {
      .timeout = std::max(options.client.connect_timeout, options.client.command_timeout),
      .on_change = [fits, told = options.on_listening_change](const absl::Status& why) {
        if (told) told(why);
        // The Redis may have forgotten while it was away.
        if (why.ok()) fits->RestoreAll().IgnoreError();
      }};
  return RedisStores{.steps = std::make_unique<RedisStepStore>(client, options.lifetimes,
                                                               subscriber, options.clock),
                     .fits = std::make_unique<RedisFitStore>(std::move(fits))};
}

absl::StatusOr<RedisStores> OpenRedisStores(const std::string& url,
                                            const RedisStoresOptions& options) {
  absl::StatusOr<RedisAddress> address = ParseRedisAddress(url);
  if (!address.ok()) return address.status();
  return OpenRedisStores(*std::move(address), options);
}

}  // namespace batchplan
