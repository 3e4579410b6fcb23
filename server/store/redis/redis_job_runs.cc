#include "server/store/redis/redis_job_runs.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "server/store/step_store.h"

namespace batchplan {
namespace {

// The most jobs whose runs are remembered: at most about 32 MB.
constexpr size_t kMaxJobs = 4096;

// An announcement is the job's name with this mark, which no step's name ends in.
constexpr char kAnnouncementMark = '!';

// ARGV from `from` on: run, lifetime in ms, the lowest rank that is kept, channel, message, and the
// runs that the caller knows, each with its time. A key of another type is replaced. If Redis is
// full, nothing is written: the caller's own first write still fails, and its next call repeats
// what it knows.
constexpr std::string_view kSeeRuns = R"(
local function see_runs(key, from)
  local run, lifetime, lowest, channel, message = unpack(ARGV, from, from + 4)
  local stored = redis.pcall('ZRANGE', key, 0, -1, 'WITHSCORES')
  if stored.err then
    redis.call('DEL', key)
    stored = {}
  end
  local times, count, differs = {}, 0, false
  for i = 1, #stored, 2 do
    times[stored[i]] = tonumber(stored[i + 1])
    count = count + 1
  end
  local function set(name, time)
    times[name] = time
    return redis.pcall('ZADD', key, string.format('%.0f', time), name)
  end
  local changed = false
  for i = from + 5, #ARGV, 2 do
    local name, time = ARGV[i], tonumber(ARGV[i + 1])
    if not times[name] then count = count + 1 end
    if not times[name] or time < times[name] then
      if type(set(name, time)) == 'number' then changed = true end
    elseif times[name] < time then
      differs = true
    end
  end
  if 2 * count ~= #ARGV - from - 4 then differs = true end
  local current = false
  for name, time in pairs(times) do
    if not current or time > times[current] or (time == times[current] and name > current) then
      current = name
    end
  end
  local function announce()
    redis.call('ZREMRANGEBYRANK', key, 0, lowest)
    redis.call('PEXPIRE', key, lifetime)
    redis.pcall('PUBLISH', channel, message)
  end
  if changed then announce() end
  local function told()
    local list = {}
    for name, time in pairs(times) do
      list[#list + 1] = name
      list[#list + 1] = string.format('%.0f', time)
    end
    return list
  end
  local function add()
    local now = redis.call('TIME')
    local time = now[1] * 1000000 + now[2]
    if current and time <= times[current] then time = times[current] + 1 end
    local added = set(run, time)
    if type(added) ~= 'number' then error(added) end
    announce()
    return told()
  end
  return current, times[run] ~= nil, add, differs and told()
end
)";

constexpr std::string_view kShare = R"(
local _, _, _, told = see_runs(KEYS[1], 1)
return told or {}
)";

const RedisScript& ShareScript() {
  static const RedisScript script(RedisJobRuns::WithSeeRuns(kShare));
  return script;
}

}  // namespace

RedisJobRuns::RedisJobRuns(std::shared_ptr<RedisClient> client, std::string channel,
                           absl::Duration lifetime, Clock clock)
    : client_(std::move(client)),
      channel_(std::move(channel)),
      lifetime_(absl::StrCat(absl::ToInt64Milliseconds(lifetime))),
      clock_(std::move(clock)),
      runs_(kMaxJobs, lifetime) {}

std::string RedisJobRuns::WithSeeRuns(std::string_view script) {
  return absl::StrCat(std::string(kSeeRuns), std::string(script));
}

std::vector<std::string> RedisJobRuns::Arguments(const std::string& job, const std::string& run) {
  std::vector<std::string> arguments = {run, lifetime_, absl::StrCat("-", kMaxRunsOfAJob + 1),
                                        channel_, job + kAnnouncementMark};
  MutexLock lock(mutex_);
  for (const SeenRun& seen : runs_.Known(job, clock_())) {
    arguments.push_back(seen.run);
    arguments.push_back(absl::StrCat(seen.time));
  }
  return arguments;
}

void RedisJobRuns::Learn(const std::string& job, const redisReply& told) {
  const std::span<redisReply* const> elements = RedisElements(told);
  std::vector<SeenRun> seen;
  for (size_t i = 0; i + 1 < elements.size(); i += 2) {
    SeenRun run = {.run = std::string(RedisBytes(*elements[i]))};
    if (absl::SimpleAtoi(std::string(RedisBytes(*elements[i + 1])), &run.time)) {
      seen.push_back(std::move(run));
    }
  }
  if (seen.empty()) return;
  MutexLock lock(mutex_);
  runs_.Learn(job, seen, clock_());
}

std::optional<std::string> RedisJobRuns::AnnouncedJob(std::string_view message) {
  if (!message.ends_with(kAnnouncementMark)) return std::nullopt;
  message.remove_suffix(1);
  return std::string(message);
}

absl::Status RedisJobRuns::Share(const std::string& job) {
  const std::vector<std::string> arguments = Arguments(job, "");
  absl::StatusOr<RedisReply> reply =
      client_->Run(ShareScript(), {RedisKeyOf(job)}, {arguments.begin(), arguments.end()});
  if (!reply.ok()) return reply.status();
  Learn(job, **reply);
  return absl::OkStatus();
}

absl::Status RedisJobRuns::ShareAll() {
  std::vector<std::string> jobs;
  {
    MutexLock lock(mutex_);
    jobs = runs_.JobsWithOrder(clock_());
  }
  for (const std::string& job : jobs) {
    if (absl::Status status = Share(job); !status.ok()) return status;
  }
  return absl::OkStatus();
}

void RedisJobRuns::Use(const std::string& job) {
  MutexLock lock(mutex_);
  runs_.Known(job, clock_());
}

}  // namespace batchplan
