#include "server/store/redis/redis_address.h"

#include <sys/un.h>

#include <limits>
#include <optional>
#include <string_view>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace batchplan {
namespace {

// What a socket's address has room for, with the zero at its end.
constexpr size_t kMaxSocketPath = sizeof(sockaddr_un::sun_path) - 1;

absl::Status Wrong(const std::string& what) {
  return absl::InvalidArgumentError(absl::StrCat(
      "the store's URL: ", what,
      "; it must be redis://[[user]:password@]host[:port][/database] or ",
      "redis+unix://[[user]:password@]/path[?db=database] (not quoted here: it may hold a ",
      "password)"));
}

// `text` as a number of digits alone, at most `limit`.
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
absl::Status ParseHost(std::string_view text, RedisAddress& address) {
  std::string_view port;
  bool has_port = false;
  if (text.starts_with('[')) {
    const size_t close = text.find(']');
    if (close == std::string_view::npos) return Wrong("the host has a [ without ]");
    address.host = text.substr(1, close - 1);
    const std::string_view rest = text.substr(close + 1);
    has_port = rest.starts_with(':');
    if (!has_port && !rest.empty()) return Wrong("only :port may follow the host's ]");
    if (has_port) port = rest.substr(1);
  } else {
    const size_t colon = text.find(':');
    address.host = text.substr(0, colon);
    has_port = colon != std::string_view::npos;
    if (has_port) port = text.substr(colon + 1);
  }
  if (address.host.empty()) return Wrong("it has no host");
  if (address.host.find_first_of(std::string_view(" \t\r\n,\\\"'\0", 9)) != std::string::npos) {
    return Wrong("the host must be one name or address");
  }
  if (has_port) {
    const std::optional<uint32_t> number = ParseNumber(port, std::numeric_limits<uint16_t>::max());
    if (!number || *number == 0) return Wrong("the port must be a number of 1 to 65535");
    address.port = static_cast<uint16_t>(*number);
  }
  return absl::OkStatus();
}

absl::Status ParseDatabase(std::string_view text, RedisAddress& address) {
  const std::optional<uint32_t> number = ParseNumber(text, std::numeric_limits<int32_t>::max());
  if (!number) return Wrong("the database must be a number of 0 to 2147483647");
  address.database = *number;
  return absl::OkStatus();
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

std::string RedisAddress::Redacted() const {
  if (!socket_path.empty()) {
    return absl::StrCat("redis+unix://", socket_path,
                        database == 0 ? "" : absl::StrCat("?db=", database));
  }
  const bool brackets = host.find(':') != std::string::npos;
  return absl::StrCat("redis://", brackets ? "[" : "", host, brackets ? "]" : "", ":", port,
                      database == 0 ? "" : absl::StrCat("/", database));
}

absl::StatusOr<RedisAddress> ParseRedisAddress(const std::string& url) {
  const std::string_view text = url;
  const size_t colon = text.find("://");
  if (colon == std::string_view::npos) return Wrong("it has no scheme");
  const std::string scheme = absl::AsciiStrToLower(url.substr(0, colon));
  if (scheme == "rediss") {
    return Wrong(
        "rediss:// is not supported, this build's hiredis has no TLS: use redis:// on a "
        "trusted network or through a TLS tunnel");
  }
  const bool is_socket = scheme == "redis+unix" || scheme == "unix";
  if (!is_socket && scheme != "redis") return Wrong("its scheme is not known");

  const std::string_view rest = text.substr(colon + 3);
  const size_t end = rest.find_first_of("/?#");
  const std::string_view authority = rest.substr(0, end);
  const std::string_view tail =
      end == std::string_view::npos ? std::string_view() : rest.substr(end);

  RedisAddress address;
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
    status = ParseHost(host, address);
    if (status.ok() && !tail.empty() && tail != "/") {
      status = tail.front() == '/' ? ParseDatabase(tail.substr(1), address)
                                   : Wrong("only /database may follow the host");
    }
  }
  if (!status.ok()) return status;
  return address;
}

}  // namespace batchplan
