// Where a Redis is and how it is entered, as a URL says it.
//
//   absl::StatusOr<RedisAddress> address = ParseRedisAddress("redis://:secret@redis:6379/2");
//   address->Redacted();                                         // redis://redis:6379/2
//
//   redis://[user@|[user]:password@]host[:port][/database]             port 6379, database 0
//   redis+sentinel://[...@]host[:port],...,host[:port]/master[/database]   port 26379, database 0
//   redis+unix://[...@]/path/of/socket[?db=database]                       also unix://
//
// With rediss in the place of redis, the first two are over TLS. User, password and socket path may
// be percent-encoded; a password with one of /?#% must be. An IPv6 address stands in brackets.

#ifndef BATCHPLAN_SERVER_STORE_REDIS_REDIS_ADDRESS_H_
#define BATCHPLAN_SERVER_STORE_REDIS_REDIS_ADDRESS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/store/redis/redis_tls.h"

namespace batchplan {

struct RedisHost {
  std::string host;
  uint16_t port;
};

// "redis:6379", "[::1]:6379".
std::string HostAndPort(const RedisHost& host);

struct RedisAddress {
  // Empty with a socket_path, and with sentinels.
  std::string host;
  uint16_t port = 6379;
  std::string socket_path;
  // Who knows where the Redis is that they call `master`; empty if it is known from here.
  std::vector<RedisHost> sentinels;
  std::string master;
  // Without a user, Redis takes the password for its default user's. Without a password there is no
  // authentication: a user alone is for whoever knows the password from elsewhere.
  std::string user;
  std::string password;
  uint32_t database = 0;
  // The files are nothing that a URL says; those of Sentinels are the same.
  bool tls = false;
  RedisTlsFiles tls_files;

  // The URL without user and password, for messages.
  std::string Redacted() const;
};

// InvalidArgument, naming the part that is wrong. The message does not quote the URL: what was
// meant as a password may stand anywhere in one that can't be read.
absl::StatusOr<RedisAddress> ParseRedisAddress(const std::string& url);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_STORE_REDIS_REDIS_ADDRESS_H_
