#include "server/store/redis/redis_address.h"

#include <sys/un.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <string_view>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace batchplan {
namespace {

// The room for a path in a socket's address, without the zero at its end.
constexpr size_t kMaxSocketPath = sizeof(sockaddr_un::sun_path) - 1;
constexpr uint16_t kRedisPort = 6379;
constexpr uint16_t kSentinelPort = 26379;

absl::Status Wrong(const std::string& what) {
  return absl::InvalidArgumentError(absl::StrCat(
      "the store's URL: ", what, "; it must be redis://[user@]host[:port][/database], ",
      "redis+sentinel://[user@]host[:port],.../master[/database], both with rediss for TLS, or ",
      "redis+unix://[user@]/path[?db=database] (not quoted here: it may hold a password)"));
}

// `text` as a number if it consists of digits and is at most `limit`.
std::optional<uint32_t> ParseNumber(std::string_view text, uint32_t limit) {
  uint32_t number = 0;
  if (text.empty() || text.find_first_not_of("0123456789") != std::string_view::npos ||
      !absl::SimpleAtoi(std::string(text), &number) || number > limit) {
    return std::nullopt;
  }
  return number;
}

int HexDigit(char digit) {
  if (digit >= '0' && digit <= '9') return digit - '0';
  const char lower = absl::ascii_tolower(digit);
  return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

std::optional<std::string> PercentDecode(std::string_view text) {
  std::string decoded;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      decoded += text[i];
      continue;
    }
    if (text.size() - i < 3) return std::nullopt;
    const int high = HexDigit(text[i + 1]);
    const int low = HexDigit(text[i + 2]);
    if (high < 0 || low < 0) return std::nullopt;
    decoded += static_cast<char>(high * 16 + low);
    i += 2;
  }
  return decoded;
}

// user, or [user]:password
absl::Status ParseCredentials(std::string_view text, RedisAddress& address) {
  const size_t colon = text.find(':');
  const std::optional<std::string> user = PercentDecode(text.substr(0, colon));
  const std::optional<std::string> password =
      colon == std::string_view::npos ? "" : PercentDecode(text.substr(colon + 1));
  if (!user || !password) return Wrong("user or password has a % without two hexadecimal digits");
  if (password->empty() && (user->empty() || colon != std::string_view::npos)) {
    return Wrong("there is an @ but no user or password before it");
  }
  address.user = *user;
  address.password = *password;
  return absl::OkStatus();
}

// host[:port]
absl::StatusOr<RedisHost> ParseHost(std::string_view text, uint16_t default_port) {
  RedisHost parsed = {.host = {}, .port = default_port};
  std::string_view port;
  bool has_port = false;
  if (text.starts_with('[')) {
    const size_t close = text.find(']');
    if (close == std::string_view::npos) return Wrong("the host has a [ without ]");
    parsed.host = text.substr(1, close - 1);
    const std::string_view rest = text.substr(close + 1);
    has_port = rest.starts_with(':');
    if (!has_port && !rest.empty()) return Wrong("only :port may follow the host's ]");
    if (has_port) port = rest.substr(1);
  } else {
    const size_t colon = text.find(':');
    parsed.host = text.substr(0, colon);
    has_port = colon != std::string_view::npos;
    if (has_port) port = text.substr(colon + 1);
  }
  if (parsed.host.empty()) return Wrong("it has no host");
  if (parsed.host.find_first_of(std::string_view(" \t\r\n,\\\"'\0", 9)) != std::string::npos) {
    return Wrong("the host must be one name or address");
  }
  if (has_port) {
    const std::optional<uint32_t> number = ParseNumber(port, std::numeric_limits<uint16_t>::max());
    if (!number || *number == 0) return Wrong("the port must be a number of 1 to 65535");
    parsed.port = static_cast<uint16_t>(*number);
  }
  return parsed;
}

absl::Status ParseDatabase(std::string_view text, RedisAddress& address) {
  const std::optional<uint32_t> number = ParseNumber(text, std::numeric_limits<int32_t>::max());
  if (!number) return Wrong("the database must be a number of 0 to 2147483647");
  address.database = *number;
  return absl::OkStatus();
}

// host[:port], and [/[database]] after it
absl::Status ParseServer(std::string_view text, std::string_view tail, RedisAddress& address) {
  absl::StatusOr<RedisHost> server = ParseHost(text, kRedisPort);
  if (!server.ok()) return server.status();
  address.host = std::move(server->host);
  address.port = server->port;
  if (tail.empty() || tail == "/") return absl::OkStatus();
  if (tail.front() != '/') return Wrong("only /database may follow the host");
  return ParseDatabase(tail.substr(1), address);
}

// host[:port],..., and /master[/database] after it
absl::Status ParseSentinels(std::string_view text, std::string_view tail, RedisAddress& address) {
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    absl::StatusOr<RedisHost> sentinel = ParseHost(text.substr(begin, end - begin), kSentinelPort);
    if (!sentinel.ok()) return sentinel.status();
    address.sentinels.push_back(*std::move(sentinel));
    begin = end + 1;
  }
  if (tail.size() < 2 || tail.front() != '/') {
    return Wrong("/ and the name of the master must follow the Sentinels");
  }
  const size_t slash = tail.find('/', 1);
  const std::optional<std::string> master = PercentDecode(tail.substr(1, slash - 1));
  if (!master) return Wrong("the master's name has a % without two hexadecimal digits");
  if (master->empty() || tail.find_first_of("?#") != std::string_view::npos) {
    return Wrong("only /master and /database may follow the Sentinels");
  }
  address.master = *master;
  return slash == std::string_view::npos ? absl::OkStatus()
                                         : ParseDatabase(tail.substr(slash + 1), address);
}

// /path[?db=N]
absl::Status ParseSocket(std::string_view text, RedisAddress& address) {
  const size_t question = text.find('?');
  const std::optional<std::string> path = PercentDecode(text.substr(0, question));
  if (!path) return Wrong("the socket's path has a % without two hexadecimal digits");
  if (path->size() < 2) return Wrong("it has no socket path");
  if (path->size() > kMaxSocketPath || path->find('\0') != std::string::npos) {
    return Wrong(absl::StrCat("the socket's path must have at most ", kMaxSocketPath,
                              " bytes, none of them zero"));
  }
  address.socket_path = *path;
  if (question == std::string_view::npos) return absl::OkStatus();
  const std::string_view query = text.substr(question + 1);
  if (!query.starts_with("db=")) return Wrong("only ?db=database may follow the socket's path");
  return ParseDatabase(query.substr(3), address);
}

}  // namespace

std::string HostAndPort(const RedisHost& host) {
  const bool brackets = host.host.find(':') != std::string::npos;
  return absl::StrCat(brackets ? "[" : "", host.host, brackets ? "]" : "", ":", host.port);
}

std::string RedisAddress::Redacted() const {
  if (!socket_path.empty()) {
    return absl::StrCat("redis+unix://", socket_path,
                        database == 0 ? "" : absl::StrCat("?db=", database));
  }
  std::string url = tls ? "rediss" : "redis";
  if (sentinels.empty()) {
    absl::StrAppend(&url, "://", HostAndPort({.host = host, .port = port}));
  } else {
    absl::StrAppend(&url, "+sentinel://",
                    absl::StrJoin(sentinels, ",",
                                  [](std::string* out, const RedisHost& sentinel) {
                                    out->append(HostAndPort(sentinel));
                                  }),
                    "/", master);
  }
  if (database != 0) absl::StrAppend(&url, "/", database);
  return url;
}

absl::StatusOr<RedisAddress> ParseRedisAddress(const std::string& url) {
  const std::string_view text = url;
  const size_t colon = text.find("://");
  if (colon == std::string_view::npos) return Wrong("it has no scheme");
  const std::string scheme = absl::AsciiStrToLower(url.substr(0, colon));
  const bool is_socket = scheme == "redis+unix" || scheme == "unix";
  const bool has_sentinels = scheme == "redis+sentinel" || scheme == "rediss+sentinel";
  if (!is_socket && !has_sentinels && scheme != "redis" && scheme != "rediss") {
    return Wrong("its scheme is not known");
  }

  const std::string_view rest = text.substr(colon + 3);
  const size_t end = rest.find_first_of("/?#");
  const std::string_view authority = rest.substr(0, end);
  const std::string_view tail =
      end == std::string_view::npos ? std::string_view() : rest.substr(end);

  RedisAddress address;
  address.tls = scheme.starts_with("rediss");
  const size_t at = authority.rfind('@');
  if (at != std::string_view::npos) {
    if (absl::Status status = ParseCredentials(authority.substr(0, at), address); !status.ok()) {
      return status;
    }
  }
  const std::string_view host = at == std::string_view::npos ? authority : authority.substr(at + 1);
  absl::Status status;
  if (is_socket) {
    status = host.empty() ? ParseSocket(tail, address)
                          : Wrong("a socket's path begins with /, and has no host before it");
  } else {
    status = has_sentinels ? ParseSentinels(host, tail, address) : ParseServer(host, tail, address);
  }
  if (!status.ok()) return status;
  return address;
}

}  // namespace batchplan
