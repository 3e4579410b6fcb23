#include "server/store/redis/redis_step_store.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "server/store/redis/redis_reply.h"

namespace batchplan {
namespace {

constexpr const char* kChannel = "batchplan:v1:steps";

// A step is one hash: its terms, the worker who brought them, its world size, how many parts are
// in, its outcome, and each part under its worker's number in digits.

// ARGV: worker, world size, terms, content, time to live in ms, channel, message. What needs memory
// is written first: if there is none, the script ends there and nothing has changed.
constexpr std::string_view kPutPart = R"(
local terms, terms_worker, world, arrived, outcome, content = unpack(redis.call(
    'HMGET', KEYS[1], 'terms', 'terms_worker', 'world', 'arrived', 'outcome', ARGV[1]))
if terms and terms ~= ARGV[3] then return {'other terms', terms, terms_worker} end
if content and content ~= ARGV[4] then return {'other content'} end
local last = false
if not terms then
  world, arrived = ARGV[2], '1'
  redis.call('HSET', KEYS[1], ARGV[1], ARGV[4], 'terms', ARGV[3], 'terms_worker', ARGV[1],
      'world', world, 'arrived', arrived)
  last = world == arrived
elseif not content then
  arrived = string.format('%d', arrived + 1)
  redis.call('HSET', KEYS[1], ARGV[1], ARGV[4], 'arrived', arrived)
  last = world == arrived
end
if not outcome then redis.call('PEXPIRE', KEYS[1], ARGV[5]) end
if last then redis.pcall('PUBLISH', ARGV[6], ARGV[7]) end
return {'accepted', world == arrived and 1 or 0, outcome, last and 1 or 0}
)";

constexpr std::string_view kProgress = R"(
local world, arrived, outcome = unpack(redis.call(
    'HMGET', KEYS[1], 'world', 'arrived', 'outcome'))
if not world then return {} end
if world == arrived then return {world, outcome} end
return {world, outcome, redis.call('HKEYS', KEYS[1])}
)";

// ARGV: outcome, retention in ms, channel, message.
constexpr std::string_view kPutOutcome = R"(
local world, arrived, outcome = unpack(redis.call(
    'HMGET', KEYS[1], 'world', 'arrived', 'outcome'))
if not world or world ~= arrived then return {} end
if outcome then return {outcome, 0} end
redis.call('HSET', KEYS[1], 'outcome', ARGV[1])
redis.call('PEXPIRE', KEYS[1], ARGV[2])
redis.pcall('PUBLISH', ARGV[3], ARGV[4])
return {ARGV[1], 1}
)";

const RedisScript& PutPartScript() {
  static const RedisScript script(kPutPart);
  return script;
}

const RedisScript& ProgressScript() {
  static const RedisScript script(kProgress);
  return script;
}

const RedisScript& PutOutcomeScript() {
  static const RedisScript script(kPutOutcome);
  return script;
}

// JOB/STEP, whatever bytes the job's id has: the step begins after the last slash.
std::string NameOf(const StepKey& key) { return absl::StrCat(key.job_id, "/", key.step); }

std::string RedisKeyOfStep(const std::string& name) { return "batchplan:v1:step:" + name; }

std::optional<StepKey> KeyOf(std::string_view name) {
  const size_t slash = name.rfind('/');
  if (slash == std::string_view::npos) return std::nullopt;
  StepKey key = {.job_id = std::string(name.substr(0, slash))};
  if (!absl::SimpleAtoi(std::string(name.substr(slash + 1)), &key.step)) return std::nullopt;
  return key;
}

// The number in a field's name or value; nothing for other fields.
std::optional<uint32_t> NumberIn(const redisReply& reply) {
  const std::string text(RedisBytes(reply));
  uint32_t number = 0;
  if (text.empty() || text.find_first_not_of("0123456789") != std::string::npos ||
      !absl::SimpleAtoi(text, &number)) {
    return std::nullopt;
  }
  return number;
}

bool IsOne(const redisReply& reply) {
  return reply.type == REDIS_REPLY_INTEGER && reply.integer == 1;
}

// For PEXPIRE, to which 0 is a deletion and which takes no date that is too far off.
std::string Milliseconds(absl::Duration duration) {
  const absl::Duration longest = absl::Hours(24 * 365);
  return absl::StrCat(
      absl::ToInt64Milliseconds(std::clamp(duration, absl::Milliseconds(1), longest)));
}

}  // namespace

RedisStepStore::RedisStepStore(std::shared_ptr<RedisClient> client,
                               const StepStoreOptions& lifetimes,
                               const RedisSubscriberOptions& subscriber)
    : client_(std::move(client)),
      time_to_live_(Milliseconds(lifetimes.time_to_live)),
      retention_(Milliseconds(lifetimes.retention)),
      subscriber_(client_->address(), kChannel, subscriber,
                  [this](std::string_view message) { Hear(message); }) {
  subscriber_.WaitUntilSubscribed(std::chrono::steady_clock::now() +
                                  absl::ToChronoNanoseconds(2 * subscriber.timeout));
}

absl::StatusOr<PartReceipt> RedisStepStore::PutPart(const StepKey& key, const StepPart& part) {
  const std::string name = NameOf(key);
  const std::string worker = absl::StrCat(part.worker);
  const std::string world_size = absl::StrCat(part.world_size);
  absl::StatusOr<RedisReply> reply =
      client_->Run(PutPartScript(), RedisKeyOfStep(name),
                   {worker, world_size, part.terms, part.content, time_to_live_, kChannel, name});
  if (!reply.ok()) return reply.status();

  const std::span<redisReply* const> elements = RedisElements(**reply);
  const std::string_view verdict = elements.empty() ? "" : RedisBytes(*elements[0]);
  PartReceipt receipt;
  if (verdict == "other terms" && elements.size() == 3) {
    receipt.verdict = PartReceipt::Verdict::kOtherTerms;
    receipt.terms = RedisBytes(*elements[1]);
    receipt.terms_worker = NumberIn(*elements[2]).value_or(0);
    return receipt;
  }
  if (verdict == "other content") {
    receipt.verdict = PartReceipt::Verdict::kOtherContent;
    return receipt;
  }
  if (verdict != "accepted" || elements.size() != 4) return client_->OddReply("PutPart");
  receipt.complete = IsOne(*elements[1]);
  receipt.outcome = RedisString(*elements[2]);
  // The message that comes back over the channel is not relied on for what happened here.
  if (IsOne(*elements[3])) listener_.Call(key);
  return receipt;
}

absl::StatusOr<StepProgress> RedisStepStore::Progress(const StepKey& key) {
  absl::StatusOr<RedisReply> reply =
      client_->Run(ProgressScript(), RedisKeyOfStep(NameOf(key)), {});
  if (!reply.ok()) return reply.status();
  StepProgress progress;
  const std::span<redisReply* const> elements = RedisElements(**reply);
  if (elements.empty()) return progress;
  const std::optional<uint32_t> world_size = NumberIn(*elements[0]);
  if (!world_size || elements.size() < 2) return client_->OddReply("Progress");
  progress.complete = elements.size() == 2;
  progress.outcome = RedisString(*elements[1]);
  if (progress.complete) {
    for (uint32_t worker = 0; worker < *world_size; ++worker) progress.arrived.push_back(worker);
    return progress;
  }
  for (const redisReply* field : RedisElements(*elements[2])) {
    if (const std::optional<uint32_t> worker = NumberIn(*field)) {
      progress.arrived.push_back(*worker);
    }
  }
  std::sort(progress.arrived.begin(), progress.arrived.end());
  return progress;
}

absl::StatusOr<std::vector<std::string>> RedisStepStore::Parts(const StepKey& key) {
  // One command, and so atomic without a script, which would copy megabytes once more.
  const std::string redis_key = RedisKeyOfStep(NameOf(key));
  absl::StatusOr<RedisReply> reply = client_->Call({"HGETALL", redis_key});
  if (!reply.ok()) return reply.status();
  const std::span<redisReply* const> elements = RedisElements(**reply);
  std::optional<uint32_t> world_size;
  std::vector<std::pair<uint32_t, std::string_view>> parts;
  for (size_t i = 0; i + 1 < elements.size(); i += 2) {
    if (const std::optional<uint32_t> worker = NumberIn(*elements[i])) {
      parts.emplace_back(*worker, RedisBytes(*elements[i + 1]));
    } else if (RedisBytes(*elements[i]) == "world") {
      world_size = NumberIn(*elements[i + 1]);
    }
  }
  if (!world_size || parts.size() != *world_size) return NotCompleteError(key);
  std::sort(parts.begin(), parts.end());
  std::vector<std::string> contents;
  contents.reserve(parts.size());
  for (const auto& [worker, content] : parts) contents.emplace_back(content);
  return contents;
}

absl::StatusOr<std::string> RedisStepStore::PutOutcome(const StepKey& key,
                                                       const std::string& outcome) {
  const std::string name = NameOf(key);
  absl::StatusOr<RedisReply> reply =
      client_->Run(PutOutcomeScript(), RedisKeyOfStep(name), {outcome, retention_, kChannel, name});
  if (!reply.ok()) return reply.status();
  const std::span<redisReply* const> elements = RedisElements(**reply);
  if ((*reply)->type == REDIS_REPLY_ARRAY && elements.empty()) return NotCompleteError(key);
  std::optional<std::string> stands =
      elements.size() == 2 ? RedisString(*elements[0]) : std::nullopt;
  if (!stands) return client_->OddReply("PutOutcome");
  if (IsOne(*elements[1])) listener_.Call(key);
  return *std::move(stands);
}

void RedisStepStore::Hear(std::string_view message) {
  if (const std::optional<StepKey> key = KeyOf(message)) listener_.Call(*key);
}

}  // namespace batchplan
