// Where a Redis is and how to log in, read from a URL.
//
//   absl::StatusOr<RedisAddress> address = ParseRedisAddress("redis://:secret@redis:6379/2");
//   address->Redacted();                                         // redis://redis:6379/2
//
//   redis://[user@|[user]:password@]host[:port][/database]             port 6379, database 0
//   redis+sentinel://[...@]host[:port],...,host[:port]/master[/database]   port 26379, database 0
//   redis+unix://[...@]/path/of/socket[?db=database]                       also unix://
//
// The first two may begin with rediss for TLS. User, password and socket path may be
// percent-encoded; a password with one of /?#% must be. An IPv6 address is written in brackets.

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
  // Empty if there is a socket_path, or if there are Sentinels.
  std::string host;
  uint16_t port = 6379;
  std::string socket_path;
  // Sentinels that know the current master, which they call `master`; none if the address is fixed.
  std::vector<RedisHost> sentinels;
  std::string master;
  // Redis uses a password without a user for its default user. Without a password there is no
  // authentication; a user alone is for callers that know the password from elsewhere.
  std::string user;
  std::string password;
  uint32_t database = 0;
  // The files are not part of the URL. The same ones are used for Sentinels.
  bool tls = false;
  RedisTlsFiles tls_files;

  // The URL without user and password, for messages.
  std::string Redacted() const;
};

// InvalidArgument, naming the wrong part. The message does not quote the URL: in a URL that can't
// be parsed, any part may be a password.
absl::StatusOr<RedisAddress> ParseRedisAddress(const std::string& url);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_STORE_REDIS_REDIS_ADDRESS_H_
