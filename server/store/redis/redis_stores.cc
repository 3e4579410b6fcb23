#include "server/store/redis/redis_stores.h"

#include <algorithm>
#include <utility>

#include "server/store/redis/redis_fit_store.h"
#include "server/store/redis/redis_step_store.h"
#include "server/store/redis/redis_subscriber.h"

namespace batchplan {

RedisStores OpenRedisStores(RedisAddress address, const RedisStoresOptions& options) {
  auto client = std::make_shared<RedisClient>(std::move(address), options.client);
  auto fits = std::make_shared<RedisFits>(client, options.fit_retention);
  const RedisSubscriberOptions subscriber = {
      .timeout = std::max(options.client.connect_timeout, options.client.command_timeout),
      .on_change = [fits, told = options.on_listening_change](const absl::Status& why) {
        if (told) told(why);
        // Of a Redis that was away it may be that it forgot.
        if (why.ok()) fits->RestoreAll().IgnoreError();
      }};
  return {.steps = std::make_unique<RedisStepStore>(client, options.lifetimes, subscriber,
                                                    options.clock),
          .fits = std::make_unique<RedisFitStore>(std::move(fits))};
}

absl::StatusOr<RedisStores> OpenRedisStores(const std::string& url,
                                            const RedisStoresOptions& options) {
  absl::StatusOr<RedisAddress> address = ParseRedisAddress(url);
  if (!address.ok()) return address.status();
  return OpenRedisStores(*std::move(address), options);
}

}  // namespace batchplan
