// TLS over a connection whose bytes somebody else carries.
//
//   absl::StatusOr<std::unique_ptr<RedisTls>> tls = RedisTls::Begin(files, "redis.example");
//   absl::StatusOr<bool> done = (*tls)->Handshake();
//   ... send TakeOutgoing(), PutIncoming(what comes), until it is done ...
//   (*tls)->Write("PING\r\n");                         // then send TakeOutgoing()
//   (*tls)->PutIncoming(received);
//   absl::StatusOr<size_t> bytes = (*tls)->Read(buffer);
//
// TLS 1.2 or later. The other end must show a certificate of one of the authorities, in force, and
// for the host's name or address. The files are read at each beginning, so that renewed ones hold
// from the next connection on.
//
// Errors are FailedPrecondition where a person has to put it right: a file, a certificate that is
// not trusted, an alert of the other end, an other end that speaks no TLS. After any of them what
// is left is to send TakeOutgoing(), which tells the other end. Not thread-safe.

#ifndef BATCHPLAN_SERVER_STORE_REDIS_REDIS_TLS_H_
#define BATCHPLAN_SERVER_STORE_REDIS_REDIS_TLS_H_

#include <openssl/ssl.h>

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace batchplan {

// PEM files.
struct RedisTlsFiles {
  // The authorities that are trusted. Empty: those of the system.
  std::string authorities = {};
  // What is shown to a Redis that asks for it, and its key. Empty: nothing.
  std::string certificate = {};
  std::string key = {};
};

// Whether they can be used; FailedPrecondition, naming flag and file.
absl::Status CheckRedisTlsFiles(const RedisTlsFiles& files);

class RedisTls {
 public:
  // The client's end of a connection to `host`, a name or an address.
  static absl::StatusOr<std::unique_ptr<RedisTls>> Begin(const RedisTlsFiles& files,
                                                         const std::string& host);

  RedisTls(const RedisTls&) = delete;
  RedisTls& operator=(const RedisTls&) = delete;

  // Goes on with the handshake as far as what came allows; whether it is done.
  absl::StatusOr<bool> Handshake();

  // Once the handshake is done.
  absl::Status Write(std::string_view bytes);
  // What came, as far as `buffer` has room: how many bytes, 0 until more comes in. Unavailable if
  // the other end has closed.
  absl::StatusOr<size_t> Read(std::span<char> buffer);

  // What is to be sent, and what came.
  std::string TakeOutgoing();
  void PutIncoming(std::string_view bytes);

 private:
  struct FreeSsl {
    void operator()(SSL* ssl) const { SSL_free(ssl); }
  };

  explicit RedisTls(std::unique_ptr<SSL, FreeSsl> ssl) : ssl_(std::move(ssl)) {}

  // Why the call that returned `result` failed.
  absl::Status Failure(int result) const;

  std::unique_ptr<SSL, FreeSsl> ssl_;
};

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_STORE_REDIS_REDIS_TLS_H_
