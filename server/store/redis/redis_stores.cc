#include "server/store/redis/redis_stores.h"

#include <algorithm>
#include <utility>

#include "server/store/redis/redis_address.h"
#include "server/store/redis/redis_fit_store.h"
#include "server/store/redis/redis_step_store.h"
#include "server/store/redis/redis_subscriber.h"

namespace batchplan {

RedisStores OpenRedisStores(RedisAddress address, const RedisStoresOptions& options) {
  const RedisSubscriberOptions subscriber = {
      .timeout = std::max(options.client.connect_timeout, options.client.command_timeout),
      .on_change = options.on_listening_change};
  auto client = std::make_shared<RedisClient>(std::move(address), options.client);
  return {.steps = std::make_unique<RedisStepStore>(client, options.lifetimes, subscriber),
          .fits = std::make_unique<RedisFitStore>(client, options.fit_retention)};
}

absl::StatusOr<RedisStores> OpenRedisStores(const std::string& url,
                                            const RedisStoresOptions& options) {
  absl::StatusOr<RedisAddress> address = ParseRedisAddress(url);
  if (!address.ok()) return address.status();
  return OpenRedisStores(*std::move(address), options);
}

}  // namespace batchplan
