// What a Redis answers: hiredis' tree, owned. A null pointer is no reply.

#ifndef BATCHPLAN_SERVER_STORE_REDIS_REDIS_REPLY_H_
#define BATCHPLAN_SERVER_STORE_REDIS_REDIS_REPLY_H_

#include <hiredis/hiredis.h>

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace batchplan {

struct FreeRedisReply {
  void operator()(redisReply* reply) const { freeReplyObject(reply); }
};
using RedisReply = std::unique_ptr<redisReply, FreeRedisReply>;

// The bytes of a string, status or error; empty for everything else. Good as long as the reply.
inline std::string_view RedisBytes(const redisReply& reply) {
  const bool has_bytes = reply.type == REDIS_REPLY_STRING || reply.type == REDIS_REPLY_STATUS ||
                         reply.type == REDIS_REPLY_ERROR;
  return has_bytes ? std::string_view(reply.str, reply.len) : std::string_view();
}

// A string; nothing for a null and everything else.
inline std::optional<std::string> RedisString(const redisReply& reply) {
  if (reply.type != REDIS_REPLY_STRING) return std::nullopt;
  return std::string(reply.str, reply.len);
}

// The elements of an array; none for everything else.
inline std::span<redisReply* const> RedisElements(const redisReply& reply) {
  if (reply.type != REDIS_REPLY_ARRAY) return {};
  return {reply.element, reply.elements};
}

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_STORE_REDIS_REDIS_REPLY_H_
