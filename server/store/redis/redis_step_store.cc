#include "server/store/redis/redis_step_store.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <optional>
#include <random>
#include <span>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace batchplan {
namespace {

constexpr const char* kChannel = "batchplan:v1:steps";

// A step is one hash. Its fields are the incarnation, the terms and the worker who brought them,
// the world size, the number of parts, the outcome and whether it is a refusal. Each part has its
// worker's number as field; s with the number says that the worker was served, and "served" counts
// them. A second key is the set of replicas where somebody waits for the step, and expires when
// nobody does. A third is the step's plan, and a fourth the replica that plans the step, each a
// hash with the name of the incarnation as field. A job's runs are a sorted set (redis_job_runs.h).
//
// In all scripts KEYS are the step, who waits for it, the job's runs, the step's plan, and who
// plans it.

// ARGV: worker, world size, terms, content, time to live in ms, channel, message, the incarnation
// in case the step begins, the replica or '', waiting in ms, and what see_runs reads, with run ''
// for none. Whatever needs memory is written first: without memory, the script ends there and only
// the job's runs have changed.
constexpr std::string_view kPutPart = R"(
local run, told = ARGV[11], false
if run ~= '' then
  local current, known, add
  current, known, add, told = see_runs(KEYS[3], 11)
  if not known then
    told = add()
  elseif current ~= run then
    return {'superseded', current, told}
  end
end
local step = redis.pcall('HMGET', KEYS[1], 'terms', 'terms_worker', 'world', 'arrived', 'outcome',
    'refusal', 'served', 'incarnation', ARGV[1])
if step.err then
  redis.call('DEL', KEYS[1])
  step = {}
end
local terms, terms_worker, world, arrived, outcome, refusal, served, incarnation, content =
    unpack(step, 1, 9)
if terms and (terms ~= ARGV[3] or (content and content ~= ARGV[4])) then
  local gives_way
  if outcome then
    gives_way = refusal or served == world
  else
    gives_way = redis.call('EXISTS', KEYS[2]) == 0
  end
  if not gives_way then
    if terms ~= ARGV[3] then return {'other terms', terms, terms_worker, told} end
    return {'other content', told}
  end
  redis.call('DEL', KEYS[1], KEYS[2], KEYS[4])
  terms, outcome, content = false, false, false
end
local last = false
if not terms then
  incarnation, world, arrived = ARGV[8], ARGV[2], '1'
  redis.call('HSET', KEYS[1], ARGV[1], ARGV[4], 'terms', ARGV[3], 'terms_worker', ARGV[1],
      'world', world, 'arrived', arrived, 'incarnation', incarnation)
  last = world == arrived
elseif not content then
  arrived = string.format('%d', arrived + 1)
  redis.call('HSET', KEYS[1], ARGV[1], ARGV[4], 'arrived', arrived)
  last = world == arrived
end
if not outcome then
  redis.call('PEXPIRE', KEYS[1], ARGV[5])
  if ARGV[9] ~= '' then
    redis.pcall('SADD', KEYS[2], ARGV[9])
    redis.call('PEXPIRE', KEYS[2], ARGV[10])
  end
end
if run ~= '' then redis.call('PEXPIRE', KEYS[3], ARGV[12]) end
if last then redis.pcall('PUBLISH', ARGV[6], ARGV[7]) end
return {'accepted', incarnation or '', world == arrived and 1 or 0, outcome or false,
    last and 1 or 0, told}
)";

// ARGV: the replica or '', waiting in ms, channel, message, planning in ms, and what see_runs
// reads. Replies with what see_runs told and the current run, if that is another; of a step that is
// known, with what it told, the incarnation, the world size, the outcome, and of one that is
// complete who plans it, of another the workers.
constexpr std::string_view kProgress = R"(
local told = false
if ARGV[6] ~= '' then
  local current, known, add
  current, known, add, told = see_runs(KEYS[3], 6)
  if known and current ~= ARGV[6] then return {told, current} end
end
local world, arrived, outcome, incarnation = unpack(redis.pcall(
    'HMGET', KEYS[1], 'world', 'arrived', 'outcome', 'incarnation'), 1, 4)
if not world then return {told} end
if ARGV[1] ~= '' and not outcome then
  redis.pcall('SADD', KEYS[2], ARGV[1])
  redis.call('PEXPIRE', KEYS[2], ARGV[2])
end
if world == arrived then
  if outcome then return {told, incarnation or '', world, outcome, ''} end
  local planner = redis.call('HGET', KEYS[5], incarnation or '')
  if not planner and ARGV[1] ~= '' then
    planner = ARGV[1]
    redis.pcall('HSET', KEYS[5], incarnation or '', planner)
    redis.pcall('PEXPIRE', KEYS[5], ARGV[5])
  end
  return {told, incarnation or '', world, false, planner or ''}
end
if ARGV[1] ~= '' then redis.pcall('PUBLISH', ARGV[3], ARGV[4]) end
return {told, incarnation or '', world, outcome, redis.call('HKEYS', KEYS[1])}
)";

// ARGV: incarnation, outcome, whether it is a refusal (1 or 0), retention in ms, channel, message,
// the plan or '', its lifetime in ms.
constexpr std::string_view kPutOutcome = R"(
local world, arrived, outcome, incarnation = unpack(redis.pcall(
    'HMGET', KEYS[1], 'world', 'arrived', 'outcome', 'incarnation'), 1, 4)
if not world or world ~= arrived or (incarnation or '') ~= ARGV[1] then return {} end
if outcome then return {outcome, 0} end
redis.call('HSET', KEYS[1], 'outcome', ARGV[2])
if ARGV[3] == '1' then redis.call('HSET', KEYS[1], 'refusal', '1') end
redis.call('PEXPIRE', KEYS[1], ARGV[4])
if ARGV[7] ~= '' then
  redis.pcall('DEL', KEYS[4])
  redis.pcall('HSET', KEYS[4], ARGV[1], ARGV[7])
  redis.pcall('PEXPIRE', KEYS[4], ARGV[8])
end
redis.pcall('PUBLISH', ARGV[5], ARGV[6])
return {ARGV[2], 1}
)";

// ARGV: incarnation, then workers.
constexpr std::string_view kMarkServed = R"(
local outcome, incarnation, served = unpack(redis.pcall(
    'HMGET', KEYS[1], 'outcome', 'incarnation', 'served'), 1, 3)
if not outcome or (incarnation or '') ~= ARGV[1] then return 0 end
served = served or 0
for i = 2, #ARGV do served = served + redis.call('HSET', KEYS[1], 's' .. ARGV[i], '') end
redis.call('HSET', KEYS[1], 'served', string.format('%d', served))
return 1
)";

// ARGV: terms, outcome, retention in ms, channel, message, the incarnation in case the step begins,
// then the contents by worker. Redis refuses a script for lack of memory only at its first write.
constexpr std::string_view kRestore = R"(
local before = 6
local world = #ARGV - before
local step = redis.pcall('HMGET', KEYS[1], 'terms', 'outcome', 'incarnation')
if step.err then redis.call('DEL', KEYS[1]) end
local terms, outcome, incarnation = unpack(step, 1, 3)
if terms then
  if terms ~= ARGV[1] then return 0 end
  for worker = 0, world - 1 do
    local content = redis.call('HGET', KEYS[1], worker)
    if content and content ~= ARGV[before + 1 + worker] then return 0 end
  end
  if outcome then return 1 end
else
  incarnation = ARGV[6]
  redis.call('HSET', KEYS[1], 'terms', ARGV[1], 'terms_worker', 0, 'incarnation', incarnation)
end
for worker = 0, world - 1 do
  redis.call('HSET', KEYS[1], worker, ARGV[before + 1 + worker])
end
redis.call('HSET', KEYS[1], 'world', world, 'arrived', world, 'outcome', ARGV[2])
redis.call('PEXPIRE', KEYS[1], ARGV[3])
redis.pcall('PUBLISH', ARGV[4], ARGV[5])
return 1
)";

const RedisScript& PutPartScript() {
  static const RedisScript script(RedisJobRuns::WithSeeRuns(kPutPart));
  return script;
}

const RedisScript& ProgressScript() {
  static const RedisScript script(RedisJobRuns::WithSeeRuns(kProgress));
  return script;
}

const RedisScript& PutOutcomeScript() {
  static const RedisScript script(kPutOutcome);
  return script;
}

const RedisScript& MarkServedScript() {
  static const RedisScript script(kMarkServed);
  return script;
}

const RedisScript& RestoreScript() {
  static const RedisScript script(kRestore);
  return script;
}

// JOB/STEP, or JOB/RUN/BYTES.STEP where BYTES is the length of RUN. This is unambiguous whatever
// bytes the ids have: the part behind the last slash tells the form, and where RUN begins.
std::string NameOf(const StepKey& key) {
  if (key.run_id.empty()) return absl::StrCat(key.job_id, "/", key.step);
  return absl::StrCat(key.job_id, "/", key.run_id, "/", key.run_id.size(), ".", key.step);
}

std::optional<StepKey> ParseName(std::string_view name) {
  const size_t slash = name.rfind('/');
  if (slash == std::string_view::npos) return std::nullopt;
  std::string_view ids = name.substr(0, slash);
  std::string_view step = name.substr(slash + 1);
  StepKey key;
  if (const size_t dot = step.find('.'); dot != std::string_view::npos) {
    size_t bytes = 0;
    if (!absl::SimpleAtoi(std::string(step.substr(0, dot)), &bytes) || bytes >= ids.size()) {
      return std::nullopt;
    }
    key.run_id = ids.substr(ids.size() - bytes);
    ids.remove_suffix(bytes + 1);
    step.remove_prefix(dot + 1);
  }
  key.job_id = ids;
  if (!absl::SimpleAtoi(std::string(step), &key.step)) return std::nullopt;
  return key;
}

// The message that a step is incomplete is its name with this mark.
constexpr char kIncompleteMark = '?';

// A step's name, and the keys in Redis.
struct RedisKeys {
  explicit RedisKeys(const StepKey& key)
      : name(NameOf(key)),
        step("batchplan:v1:step:" + name),
        waiting("batchplan:v1:waiting:" + name),
        runs(RedisJobRuns::RedisKeyOf(key.job_id)),
        plan("batchplan:v1:plan:" + name),
        planner("batchplan:v1:planner:" + name) {}

  std::vector<std::string_view> all() const { return {step, waiting, runs, plan, planner}; }

  std::string name;
  std::string step;
  std::string waiting;
  std::string runs;
  std::string plan;
  std::string planner;
};

// A name that nobody has had before: a random one of this process's, and a number, as every part is
// sent with a name.
std::string NewName() {
  static const std::string process = [] {
    std::random_device random;
    return absl::StrCat(absl::Hex(random(), absl::kZeroPad8), absl::Hex(random(), absl::kZeroPad8));
  }();
  static std::atomic<uint64_t> last = 0;
  return absl::StrCat(process, absl::Hex(++last));
}

// The number in a field's name or value; nothing if there is none.
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

// PEXPIRE deletes at 0, and refuses dates too far off.
absl::Duration WithinRedis(absl::Duration duration) {
  return std::clamp(duration, absl::Milliseconds(1), absl::Duration(absl::Hours(24 * 365)));
}

std::string Milliseconds(absl::Duration duration) {
  return absl::StrCat(absl::ToInt64Milliseconds(WithinRedis(duration)));
}

}  // namespace

RedisStepStore::RedisStepStore(std::shared_ptr<RedisClient> client,
                               const StepStoreOptions& lifetimes,
                               const RedisSubscriberOptions& subscriber, Clock clock)
    : client_(std::move(client)),
      time_to_live_(Milliseconds(lifetimes.time_to_live)),
      retention_(Milliseconds(lifetimes.retention)),
      waiting_(Milliseconds(lifetimes.waiting)),
      plan_lifetime_(Milliseconds(lifetimes.plan_lifetime)),
      planning_(Milliseconds(lifetimes.planning)),
      runs_(client_, kChannel, WithinRedis(lifetimes.run_lifetime), std::move(clock)),
      subscriber_(client_->address(), kChannel, TellingAgain(subscriber),
                  [this](std::string_view message) { Hear(message); }) {
  subscriber_.WaitUntilSubscribed(std::chrono::steady_clock::now() +
                                  absl::ToChronoNanoseconds(2 * subscriber.timeout));
}

absl::StatusOr<PartReceipt> RedisStepStore::PutPart(const StepKey& key, const StepPart& part) {
  const RedisKeys keys(key);
  const std::string worker = absl::StrCat(part.worker);
  const std::string world_size = absl::StrCat(part.world_size);
  const std::string incarnation = NewName();
  const std::vector<std::string> runs = ArgumentsOfRun(key);
  std::vector<std::string_view> arguments = {worker,        world_size, part.terms, part.content,
                                             time_to_live_, kChannel,   keys.name,  incarnation,
                                             part.waits_at, waiting_};
  arguments.insert(arguments.end(), runs.begin(), runs.end());
  absl::StatusOr<RedisReply> reply = client_->Run(PutPartScript(), keys.all(), arguments);
  if (!reply.ok()) return reply.status();

  const std::span<redisReply* const> elements = RedisElements(**reply);
  const std::string_view verdict = elements.empty() ? "" : RedisBytes(*elements[0]);
  if (!elements.empty()) runs_.Learn(key.job_id, *elements.back());
  PartReceipt receipt;
  if (verdict == "superseded" && elements.size() == 3) {
    receipt.verdict = PartReceipt::Verdict::kSuperseded;
    receipt.current_run = RedisBytes(*elements[1]);
    return receipt;
  }
  if (verdict == "other terms" && elements.size() == 4) {
    receipt.verdict = PartReceipt::Verdict::kOtherTerms;
    receipt.terms = RedisBytes(*elements[1]);
    receipt.terms_worker = NumberIn(*elements[2]).value_or(0);
    return receipt;
  }
  if (verdict == "other content") {
    receipt.verdict = PartReceipt::Verdict::kOtherContent;
    return receipt;
  }
  if (verdict != "accepted" || elements.size() != 6) return client_->OddReply("PutPart");
  receipt.incarnation = RedisBytes(*elements[1]);
  receipt.complete = IsOne(*elements[2]);
  receipt.outcome = RedisString(*elements[3]);
  // Called directly, because a message on the channel can get lost.
  if (IsOne(*elements[4])) listener_.Call(key, StepEvent::kChanged);
  return receipt;
}

absl::StatusOr<StepProgress> RedisStepStore::Progress(const StepKey& key,
                                                      const std::string& waits_at) {
  const RedisKeys keys(key);
  const std::string message = keys.name + kIncompleteMark;
  const std::vector<std::string> runs = ArgumentsOfRun(key);
  std::vector<std::string_view> arguments = {waits_at, waiting_, kChannel, message, planning_};
  arguments.insert(arguments.end(), runs.begin(), runs.end());
  absl::StatusOr<RedisReply> reply = client_->Run(ProgressScript(), keys.all(), arguments);
  if (!reply.ok()) return reply.status();
  StepProgress progress;
  std::span<redisReply* const> elements = RedisElements(**reply);
  if (elements.empty()) return client_->OddReply("Progress");
  runs_.Learn(key.job_id, *elements[0]);
  elements = elements.subspan(1);
  if (elements.empty()) return progress;
  if (elements.size() == 1) {
    progress.current_run = RedisBytes(*elements[0]);
    return progress;
  }
  const std::optional<uint32_t> world_size = NumberIn(*elements[1]);
  if (!world_size || elements.size() < 4) return client_->OddReply("Progress");
  progress.incarnation = RedisBytes(*elements[0]);
  progress.complete = elements[3]->type != REDIS_REPLY_ARRAY;
  progress.outcome = RedisString(*elements[2]);
  if (progress.complete) {
    progress.planner = RedisBytes(*elements[3]);
    progress.arrived.reserve(*world_size);
    for (uint32_t worker = 0; worker < *world_size; ++worker) progress.arrived.push_back(worker);
    return progress;
  }
  for (const redisReply* field : RedisElements(*elements[3])) {
    if (const std::optional<uint32_t> worker = NumberIn(*field)) {
      progress.arrived.push_back(*worker);
    }
  }
  std::sort(progress.arrived.begin(), progress.arrived.end());
  return progress;
}

absl::Status RedisStepStore::Leave(const StepKey& key, const std::string& waits_at) {
  return client_->Call({"SREM", RedisKeys(key).waiting, waits_at}).status();
}

absl::StatusOr<StepParts> RedisStepStore::Parts(const StepKey& key) {
  // One command is atomic, and a script would copy the megabytes once more.
  const RedisKeys keys(key);
  absl::StatusOr<RedisReply> reply = client_->Call({"HGETALL", keys.step});
  if (!reply.ok()) return reply.status();
  const std::span<redisReply* const> elements = RedisElements(**reply);
  StepParts step;
  std::optional<uint32_t> world_size;
  std::vector<std::pair<uint32_t, std::string_view>> parts;
  for (size_t i = 0; i + 1 < elements.size(); i += 2) {
    const redisReply& value = *elements[i + 1];
    if (const std::optional<uint32_t> worker = NumberIn(*elements[i])) {
      parts.emplace_back(*worker, RedisBytes(value));
    } else if (RedisBytes(*elements[i]) == "world") {
      world_size = NumberIn(value);
    } else if (RedisBytes(*elements[i]) == "incarnation") {
      step.incarnation = RedisBytes(value);
    }
  }
  if (!world_size || parts.size() != *world_size) return NotCompleteError(key);
  std::sort(parts.begin(), parts.end());
  step.contents.reserve(parts.size());
  for (const auto& [worker, content] : parts) step.contents.emplace_back(content);
  return step;
}

absl::StatusOr<StandingOutcome> RedisStepStore::PutOutcome(const StepKey& key,
                                                           const std::string& incarnation,
                                                           const StepOutcome& outcome) {
  const RedisKeys keys(key);
  absl::StatusOr<RedisReply> reply =
      client_->Run(PutOutcomeScript(), keys.all(),
                   {incarnation, outcome.bytes, outcome.refusal ? "1" : "0", retention_, kChannel,
                    keys.name, outcome.plan, plan_lifetime_});
  if (!reply.ok()) return reply.status();
  const std::span<redisReply* const> elements = RedisElements(**reply);
  if ((*reply)->type == REDIS_REPLY_ARRAY && elements.empty()) return NotCompleteError(key);
  std::optional<std::string> stands =
      elements.size() == 2 ? RedisString(*elements[0]) : std::nullopt;
  if (!stands) return client_->OddReply("PutOutcome");
  const bool written = IsOne(*elements[1]);
  if (written) listener_.Call(key, StepEvent::kChanged);
  return StandingOutcome{.bytes = *std::move(stands), .written = written};
}

absl::StatusOr<std::optional<std::string>> RedisStepStore::Plan(const StepKey& key,
                                                                const std::string& incarnation) {
  absl::StatusOr<RedisReply> reply = client_->Call({"HGET", RedisKeys(key).plan, incarnation});
  if (!reply.ok()) return reply.status();
  return RedisString(**reply);
}

absl::Status RedisStepStore::MarkServed(const StepKey& key, const std::string& incarnation,
                                        const std::vector<uint32_t>& workers) {
  std::vector<std::string> numbers;
  numbers.reserve(workers.size());
  for (const uint32_t worker : workers) numbers.push_back(absl::StrCat(worker));
  std::vector<std::string_view> arguments = {incarnation};
  arguments.insert(arguments.end(), numbers.begin(), numbers.end());
  return client_->Run(MarkServedScript(), RedisKeys(key).all(), arguments).status();
}

absl::StatusOr<bool> RedisStepStore::Restore(const StepKey& key, const WholeStep& step) {
  const RedisKeys keys(key);
  const std::string incarnation = NewName();
  std::vector<std::string_view> arguments = {step.terms, step.outcome, retention_,
                                             kChannel,   keys.name,    incarnation};
  arguments.insert(arguments.end(), step.contents.begin(), step.contents.end());
  absl::StatusOr<RedisReply> reply = client_->Run(RestoreScript(), keys.all(), arguments);
  if (!reply.ok()) return reply.status();
  const bool stands = IsOne(**reply);
  if (stands) listener_.Call(key, StepEvent::kChanged);
  return stands;
}

void RedisStepStore::Hear(std::string_view message) {
  if (const std::optional<std::string> job = RedisJobRuns::AnnouncedJob(message)) {
    // If this fails, the channel is lost too before long.
    runs_.Share(*job).IgnoreError();
    return;
  }
  StepEvent event = StepEvent::kChanged;
  if (message.ends_with(kIncompleteMark)) {
    event = StepEvent::kIncomplete;
    message.remove_suffix(1);
  }
  const std::optional<StepKey> key = ParseName(message);
  if (!key) return;
  runs_.Use(key->job_id);
  listener_.Call(*key, event);
}

// Tells the runs again whenever the channel is heard again: it may belong to a Redis that forgot.
RedisSubscriberOptions RedisStepStore::TellingAgain(RedisSubscriberOptions subscriber) {
  subscriber.on_change = [this, told = std::move(subscriber.on_change)](const absl::Status& why) {
    if (told) told(why);
    if (why.ok()) runs_.ShareAll().IgnoreError();
  };
  return subscriber;
}

std::vector<std::string> RedisStepStore::ArgumentsOfRun(const StepKey& key) {
  if (key.run_id.empty()) return {""};
  return runs_.Arguments(key.job_id, key.run_id);
}

}  // namespace batchplan
