#include "server/store/redis/redis_client.h"

#include <openssl/evp.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <new>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "server/store/redis/redis_sentinel.h"

namespace batchplan {
namespace {

Instant Now() { return std::chrono::steady_clock::now(); }

Instant::duration ToDuration(absl::Duration duration) {
  return std::chrono::duration_cast<Instant::duration>(absl::ToChronoNanoseconds(duration));
}

std::string Sha1Hex(const std::string& text) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest;
  unsigned int size = 0;
  if (EVP_Digest(text.data(), text.size(), digest.data(), &size, EVP_sha1(), nullptr) != 1) {
    throw std::bad_alloc();
  }
  return absl::BytesToHexString(std::string(reinterpret_cast<const char*>(digest.data()), size));
}

Instant::duration TransferTimeOf(const RedisCommand& command) {
  size_t bytes = 0;
  for (const std::string_view argument : command) bytes += argument.size();
  return TransferTime(bytes);
}

bool IsError(const RedisReply& reply) { return reply->type == REDIS_REPLY_ERROR; }

// Whether the connection is still useful after `reply`. After a fail-over, for example, the former
// master still answers, but only with READONLY.
bool IsOfUse(const RedisReply& reply) {
  if (!IsError(reply)) return true;
  const absl::StatusCode code = StatusFromRedisError(RedisBytes(*reply)).code();
  return code != absl::StatusCode::kUnavailable && code != absl::StatusCode::kFailedPrecondition;
}

}  // namespace

absl::Status RedisBreaker::Admit(Instant now) {
  MutexLock lock(mutex_);
  if (failure_.ok()) return absl::OkStatus();
  if (trying_ || now < retry_at_) return failure_;
  trying_ = true;
  return absl::OkStatus();
}

// Calls admitted before the failure may end while another call tries again. They then admit one
// call too many, which is harmless.
bool RedisBreaker::Succeeded() {
  MutexLock lock(mutex_);
  const bool news = !failure_.ok();
  failure_ = absl::OkStatus();
  trying_ = false;
  return news;
}

bool RedisBreaker::Failed(Instant now, const absl::Status& why) {
  MutexLock lock(mutex_);
  const bool news = failure_.ok();
  failure_ = why;
  retry_at_ = now + retry_delay_;
  trying_ = false;
  return news;
}

RedisScript::RedisScript(std::string_view script) : text(script), sha1(Sha1Hex(text)) {}

RedisClient::RedisClient(RedisAddress address, RedisClientOptions options)
    : address_(std::move(address)),
      options_(std::move(options)),
      breaker_(ToDuration(options_.retry_delay)) {}

absl::StatusOr<RedisReply> RedisClient::Call(const RedisCommand& command) {
  absl::StatusOr<RedisReply> reply = Exchange(command);
  absl::Status status = reply.status();
  if (reply.ok() && IsError(*reply)) status = StatusFromRedisError(RedisBytes(**reply));
  if (!status.ok()) return ExplainRedisFailure(address_.Redacted(), status);
  return reply;
}

absl::StatusOr<RedisReply> RedisClient::Run(const RedisScript& script,
                                            const std::vector<std::string_view>& keys,
                                            const std::vector<std::string_view>& arguments) {
  const std::string count = absl::StrCat(keys.size());
  RedisCommand command = {"EVALSHA", script.sha1, count};
  command.insert(command.end(), keys.begin(), keys.end());
  command.insert(command.end(), arguments.begin(), arguments.end());
  absl::StatusOr<RedisReply> reply = Exchange(command);
  if (reply.ok() && IsError(*reply) && RedisBytes(**reply).starts_with("NOSCRIPT")) {
    command[0] = "EVAL";
    command[1] = script.text;
    return Call(command);
  }
  absl::Status status = reply.status();
  if (reply.ok() && IsError(*reply)) status = StatusFromRedisError(RedisBytes(**reply));
  if (!status.ok()) return ExplainRedisFailure(address_.Redacted(), status);
  return reply;
}

absl::Status RedisClient::OddReply(std::string_view command) const {
  return ExplainRedisFailure(
      address_.Redacted(),
      absl::InternalError(absl::StrCat("a reply of the wrong shape to ", std::string(command))));
}

absl::StatusOr<RedisReply> RedisClient::Exchange(const RedisCommand& command) {
  const Instant start = Now();
  if (absl::Status status = breaker_.Admit(start); !status.ok()) return status;
  // Reported even if memory runs out: the breaker waits for the call that tries.
  absl::Status outcome = absl::UnavailableError("the call was given up");
  const absl::Cleanup report = [this, &outcome] {
    const bool news = outcome.ok() ? breaker_.Succeeded() : breaker_.Failed(Now(), outcome);
    if (news && options_.on_change) {
      options_.on_change(outcome.ok() ? outcome
                                      : ExplainRedisFailure(address_.Redacted(), outcome));
    }
  };
  absl::StatusOr<RedisReply> reply =
      Attempt(command, start + ToDuration(options_.connect_timeout + options_.command_timeout) +
                           TransferTimeOf(command));
  outcome = reply.status();
  return reply;
}

absl::StatusOr<RedisReply> RedisClient::Attempt(const RedisCommand& command, Instant deadline) {
  const Instant::duration silence = ToDuration(options_.command_timeout);
  const Instant::duration command_timeout = silence + TransferTimeOf(command);
  std::unique_ptr<RedisConnection> connection = TakeIdle();
  const bool kept = connection != nullptr;
  absl::StatusOr<RedisReply> reply = absl::UnavailableError("");
  if (kept) {
    reply = connection->Call(command, std::min(deadline, Now() + command_timeout), silence);
    // The cause probably lost the other connections too.
    if (!reply.ok()) CloseIdle();
  }
  if (!kept || absl::IsUnavailable(reply.status())) {
    absl::StatusOr<std::unique_ptr<RedisConnection>> opened = Open(deadline);
    if (!opened.ok()) return opened.status();
    connection = *std::move(opened);
    reply = connection->Call(command, std::min(deadline, Now() + command_timeout), silence);
  }
  if (!reply.ok()) return reply.status();
  if (IsOfUse(*reply)) {
    Keep(std::move(connection));
  } else {
    CloseIdle();
  }
  return reply;
}

absl::StatusOr<std::unique_ptr<RedisConnection>> RedisClient::Open(Instant deadline) const {
  return OpenRedis(address_, std::min(deadline, Now() + ToDuration(options_.connect_timeout)));
}

std::unique_ptr<RedisConnection> RedisClient::TakeIdle() {
  MutexLock lock(mutex_);
  if (idle_.empty()) return nullptr;
  std::unique_ptr<RedisConnection> connection = std::move(idle_.back());
  idle_.pop_back();
  return connection;
}

void RedisClient::Keep(std::unique_ptr<RedisConnection> connection) {
  MutexLock lock(mutex_);
  if (idle_.size() < options_.max_idle_connections) idle_.push_back(std::move(connection));
}

void RedisClient::CloseIdle() {
  std::vector<std::unique_ptr<RedisConnection>> closed;
  MutexLock lock(mutex_);
  closed.swap(idle_);
}

}  // namespace batchplan
