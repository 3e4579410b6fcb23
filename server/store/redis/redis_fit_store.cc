#include "server/store/redis/redis_fit_store.h"

#include <algorithm>
#include <optional>
#include <random>
#include <span>
#include <string_view>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace batchplan {
namespace {

// Replies with state and version; with neither if the key is no fit.
constexpr std::string_view kGet = R"(
local fit = redis.pcall('HMGET', KEYS[1], 'state', 'version')
if fit.err then return {false, false} end
return fit
)";

// ARGV: version, state, writer, retention in ms. The first version is the time in microseconds, so
// that it is above all versions from before the job was forgotten.
constexpr std::string_view kReplace = R"(
local fit = redis.pcall('HMGET', KEYS[1], 'version', 'writer')
local version, writer = fit[1], fit[2]
if fit.err or not version or #version > 18 or not string.find(version, '^%d+$') then
  version, writer = false, false
end
if writer == ARGV[3] then return 1 end
if (version or '0') ~= ARGV[1] then return 0 end
if version then
  redis.call('HSET', KEYS[1], 'state', ARGV[2], 'writer', ARGV[3])
  redis.call('HINCRBY', KEYS[1], 'version', 1)
else
  local now = redis.call('TIME')
  if fit.err then redis.call('DEL', KEYS[1]) end
  redis.call('HSET', KEYS[1], 'state', ARGV[2], 'writer', ARGV[3],
      'version', string.format('%.0f', now[1] * 1000000 + now[2]))
end
redis.call('PEXPIRE', KEYS[1], ARGV[4])
return 1
)";

const RedisScript& GetScript() {
  static const RedisScript script(kGet);
  return script;
}

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

// The version in a reply, in the form that the script of Replace accepts; nothing for other bytes.
std::optional<uint64_t> VersionIn(const redisReply& reply) {
  const std::string text(RedisBytes(reply));
  uint64_t version = 0;
  if (text.empty() || text.size() > 18 ||
      text.find_first_not_of("0123456789") != std::string::npos ||
      !absl::SimpleAtoi(text, &version)) {
    return std::nullopt;
  }
  return version;
}

}  // namespace

RedisFits::RedisFits(std::shared_ptr<RedisClient> client, absl::Duration retention)
    : client_(std::move(client)),
      retention_(absl::StrCat(absl::ToInt64Milliseconds(
          std::clamp(retention, absl::Milliseconds(1), absl::Duration(absl::Hours(24 * 365)))))),
      writer_(NewWriterName()) {}

absl::StatusOr<StoredFit> RedisFits::Get(const std::string& job_id) {
  absl::StatusOr<StoredFit> fit = Read(job_id);
  if (!fit.ok()) return fit;
  if (fit->version != 0) {
    remembered_.Set(job_id, fit->state, nullptr);
    return fit;
  }
  const absl::StatusOr<StoredFit> remembered = remembered_.Get(job_id);
  if (!remembered.ok() || remembered->state.empty()) return fit;
  // If this is refused, another replica was faster.
  const absl::StatusOr<bool> restored = Write(job_id, 0, remembered->state);
  if (!restored.ok()) return restored.status();
  return Read(job_id);
}

absl::StatusOr<bool> RedisFits::Replace(const std::string& job_id, uint64_t version,
                                        const std::string& state, const std::string& owner) {
  absl::StatusOr<bool> replaced = Write(job_id, version, state);
  if (replaced.ok() && *replaced) remembered_.Set(job_id, state, &owner);
  return replaced;
}

absl::Status RedisFits::RestoreAll() {
  for (const std::string& job_id : remembered_.job_ids()) {
    const absl::StatusOr<StoredFit> fit = Get(job_id);
    if (!fit.ok()) return fit.status();
  }
  return absl::OkStatus();
}

absl::StatusOr<StoredFit> RedisFits::Read(const std::string& job_id) {
  absl::StatusOr<RedisReply> reply = client_->Run(GetScript(), {RedisKeyOfFit(job_id)}, {});
  if (!reply.ok()) return reply.status();
  const std::span<redisReply* const> elements = RedisElements(**reply);
  if (elements.size() != 2) return client_->OddReply("Get");
  const std::optional<uint64_t> version = VersionIn(*elements[1]);
  if (!version) return StoredFit();
  return StoredFit{.state = std::string(RedisBytes(*elements[0])), .version = *version};
}

absl::StatusOr<bool> RedisFits::Write(const std::string& job_id, uint64_t version,
                                      const std::string& state) {
  const std::string read = absl::StrCat(version);
  const std::string writer = absl::StrCat(writer_, ".", calls_++);
  absl::StatusOr<RedisReply> reply =
      client_->Run(ReplaceScript(), {RedisKeyOfFit(job_id)}, {read, state, writer, retention_});
  if (!reply.ok()) return reply.status();
  if ((*reply)->type != REDIS_REPLY_INTEGER) return client_->OddReply("Replace");
  return (*reply)->integer == 1;
}

}  // namespace batchplan
