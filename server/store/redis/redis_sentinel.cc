#include "server/store/redis/redis_sentinel.h"

#include <chrono>
#include <limits>
#include <span>
#include <string>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace batchplan {
namespace {

// What the Sentinel answers about the master; may be an error reply.
absl::StatusOr<RedisReply> Ask(const RedisAddress& sentinel, const std::string& master,
                               Instant deadline, int wake) {
  const RedisCommand question = {"SENTINEL", "get-master-addr-by-name", master};
  RedisAddress stranger = sentinel;
  stranger.user.clear();
  stranger.password.clear();
  absl::StatusOr<std::unique_ptr<RedisConnection>> opened =
      RedisConnection::Open(stranger, deadline, wake);
  if (!opened.ok()) return opened.status();
  absl::StatusOr<RedisReply> reply = (*opened)->Call(question, deadline);
  if (!reply.ok() || sentinel.password.empty() || !RedisBytes(**reply).starts_with("NOAUTH")) {
    return reply;
  }
  opened = RedisConnection::Open(sentinel, deadline, wake);
  if (!opened.ok()) return opened.status();
  return (*opened)->Call(question, deadline);
}

// NotFound if the Sentinel knows no such master.
absl::StatusOr<RedisHost> MasterBy(const RedisAddress& sentinel, const std::string& master,
                                   Instant deadline, int wake) {
  const absl::StatusOr<RedisReply> reply = Ask(sentinel, master, deadline, wake);
  if (!reply.ok()) return reply.status();
  if ((*reply)->type == REDIS_REPLY_ERROR) return StatusFromRedisError(RedisBytes(**reply));
  if ((*reply)->type == REDIS_REPLY_NIL) return absl::NotFoundError("knows no such master");
  const std::span<redisReply* const> parts = RedisElements(**reply);
  uint32_t port = 0;
  if (parts.size() != 2 || RedisBytes(*parts[0]).empty() ||
      !absl::SimpleAtoi(std::string(RedisBytes(*parts[1])), &port) || port == 0 ||
      port > std::numeric_limits<uint16_t>::max()) {
    return absl::InternalError("names no host and port");
  }
  return RedisHost{.host = std::string(RedisBytes(*parts[0])), .port = static_cast<uint16_t>(port)};
}

absl::StatusOr<RedisHost> FindMaster(const RedisAddress& address, Instant deadline, int wake) {
  RedisAddress sentinel = address;
  sentinel.sentinels.clear();
  sentinel.database = 0;
  std::string answers;
  bool all_know_none = true;
  // One part of the time is left for connecting to the master.
  auto parts = static_cast<int64_t>(address.sentinels.size()) + 1;
  for (const RedisHost& host : address.sentinels) {
    sentinel.host = host.host;
    sentinel.port = host.port;
    const Instant now = std::chrono::steady_clock::now();
    absl::StatusOr<RedisHost> master =
        MasterBy(sentinel, address.master, now + (deadline - now) / parts--, wake);
    if (master.ok() || absl::IsCancelled(master.status())) return master;
    all_know_none = all_know_none && absl::IsNotFound(master.status());
    absl::StrAppend(&answers, answers.empty() ? "" : "; ", HostAndPort(host), ": ",
                    master.status().message());
  }
  return absl::Status(
      all_know_none ? absl::StatusCode::kFailedPrecondition : absl::StatusCode::kUnavailable,
      absl::StrCat("no Sentinel knows the master ", address.master, ": ", answers));
}

}  // namespace

absl::StatusOr<std::unique_ptr<RedisConnection>> OpenRedis(const RedisAddress& address,
                                                           Instant deadline, int wake) {
  if (address.sentinels.empty()) return RedisConnection::Open(address, deadline, wake);
  absl::StatusOr<RedisHost> found = FindMaster(address, deadline, wake);
  if (!found.ok()) return found.status();
  RedisAddress master = address;
  master.sentinels.clear();
  master.host = std::move(found->host);
  master.port = found->port;
  return RedisConnection::Open(master, deadline, wake);
}

}  // namespace batchplan
