#include "server/store/redis/redis_stores.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <random>
#include <span>
#include <string_view>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "server/store/redis/redis_step_store.h"
#include "server/store/redis/redis_subscriber.h"

namespace batchplan {
namespace {

// ARGV: version, state, writer, retention in ms. A first version is the time in microseconds, later
// than all versions that the job had before it was forgotten.
constexpr std::string_view kReplace = R"(
local version, writer = unpack(redis.call('HMGET', KEYS[1], 'version', 'writer'))
if writer == ARGV[3] then return 1 end
if (version or '0') ~= ARGV[1] then return 0 end
if version then
  redis.call('HSET', KEYS[1], 'state', ARGV[2], 'writer', ARGV[3])
  redis.call('HINCRBY', KEYS[1], 'version', 1)
else
  local now = redis.call('TIME')
  redis.call('HSET', KEYS[1], 'state', ARGV[2], 'writer', ARGV[3],
      'version', string.format('%.0f', now[1] * 1000000 + now[2]))
end
redis.call('PEXPIRE', KEYS[1], ARGV[4])
return 1
)";

const RedisScript& ReplaceScript() {
  static const RedisScript script(kReplace);
  return script;
}

std::string RedisKeyOfFit(const std::string& job_id) { return "batchplan:v1:fit:" + job_id; }

std::string NewWriterName() {
  std::random_device random;
  return absl::StrCat(absl::Hex(random(), absl::kZeroPad8), absl::Hex(random(), absl::kZeroPad8),
                      absl::Hex(random(), absl::kZeroPad8), absl::Hex(random(), absl::kZeroPad8));
}

// A FitStore in a Redis, for replicas that share what they fit.
//
// The keys are batchplan:v1:fit:JOB, one hash a job, forgotten when nothing was reported for
// `retention`. Versions never repeat, so that a state read before its job was forgotten replaces
// nothing. A Replace that is repeated because its connection was lost counts once. Owners have no
// shares here: what bounds the keys is `retention`, and the memory of the Redis.
class RedisFitStore final : public FitStore {
 public:
  RedisFitStore(std::shared_ptr<RedisClient> client, absl::Duration retention);

  absl::StatusOr<StoredFit> Get(const std::string& job_id) override;
  absl::StatusOr<bool> Replace(const std::string& job_id, uint64_t version,
                               const std::string& state, const std::string& owner) override;

 private:
  const std::shared_ptr<RedisClient> client_;
  const std::string retention_;
  // What tells this store's calls from each other and from all others'.
  const std::string writer_;
  std::atomic<uint64_t> calls_ = 0;
};

RedisFitStore::RedisFitStore(std::shared_ptr<RedisClient> client, absl::Duration retention)
    : client_(std::move(client)),
      retention_(absl::StrCat(absl::ToInt64Milliseconds(
          std::clamp(retention, absl::Milliseconds(1), absl::Duration(absl::Hours(24 * 365)))))),
      writer_(NewWriterName()) {}

absl::StatusOr<StoredFit> RedisFitStore::Get(const std::string& job_id) {
  const std::string key = RedisKeyOfFit(job_id);
  absl::StatusOr<RedisReply> reply = client_->Call({"HMGET", key, "state", "version"});
  if (!reply.ok()) return reply.status();
  const std::span<redisReply* const> elements = RedisElements(**reply);
  if (elements.size() != 2) return client_->OddReply("HMGET");
  StoredFit fit;
  if (elements[0]->type == REDIS_REPLY_NIL) return fit;
  fit.state = RedisBytes(*elements[0]);
  if (!absl::SimpleAtoi(std::string(RedisBytes(*elements[1])), &fit.version)) {
    return client_->OddReply("HMGET");
  }
  return fit;
}

absl::StatusOr<bool> RedisFitStore::Replace(const std::string& job_id, uint64_t version,
                                            const std::string& state,
                                            const std::string& /*owner*/) {
  const std::string read = absl::StrCat(version);
  const std::string writer = absl::StrCat(writer_, ".", calls_++);
  absl::StatusOr<RedisReply> reply =
      client_->Run(ReplaceScript(), {RedisKeyOfFit(job_id)}, {read, state, writer, retention_});
  if (!reply.ok()) return reply.status();
  if ((*reply)->type != REDIS_REPLY_INTEGER) return client_->OddReply("Replace");
  return (*reply)->integer == 1;
}

}  // namespace

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
