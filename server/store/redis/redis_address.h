// Where a Redis is and how it is entered, as a URL says it.
//
//   absl::StatusOr<RedisAddress> address = ParseRedisAddress("redis://:secret@redis:6379/2");
//   address->Redacted();                                         // redis://redis:6379/2
//
//   redis://[user@|[user]:password@]host[:port][/database]             port 6379, database 0
//   redis+unix://[user@|[user]:password@]/path/of/socket[?db=database]   also unix://
//
// User, password and socket path may be percent-encoded; a password with one of /?#% must be. An
// IPv6 address stands in brackets.

#ifndef BATCHPLAN_SERVER_STORE_REDIS_REDIS_ADDRESS_H_
#define BATCHPLAN_SERVER_STORE_REDIS_REDIS_ADDRESS_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

namespace batchplan {

struct RedisAddress {
  // Empty with a socket_path.
  std::string host;
  uint16_t port = 6379;
  std::string socket_path;
  // Without a user, Redis takes the password for its default user's. Without a password there is no
  // authentication: a user alone is for whoever knows the password from elsewhere.
  std::string user;
  std::string password;
  uint32_t database = 0;

  // The URL without user and password, for messages.
  std::string Redacted() const;
};

// InvalidArgument, naming the part that is wrong. The message does not quote the URL: what was
// meant as a password may stand anywhere in one that can't be read.
absl::StatusOr<RedisAddress> ParseRedisAddress(const std::string& url);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_STORE_REDIS_REDIS_ADDRESS_H_
