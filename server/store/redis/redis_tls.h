// TLS for a connection whose bytes the caller sends and receives.
//
//   absl::StatusOr<std::unique_ptr<RedisTls>> tls = RedisTls::Begin(files, "redis.example");
//   absl::StatusOr<bool> done = (*tls)->Handshake();
//   ... send TakeOutgoing(), PutIncoming(what comes), until it is done ...
//   (*tls)->Write("PING\r\n");                         // then send TakeOutgoing()
//   (*tls)->PutIncoming(received);
//   absl::StatusOr<size_t> bytes = (*tls)->Read(buffer);
//
// TLS 1.2 or later. The other end must show a valid certificate for the host's name or address, of
// one of the authorities. Begin reads the files each time, so that renewed files hold for the next
// connection.
//
// Errors are FailedPrecondition if someone has to put it right: a file, an untrusted certificate,
// an alert from the other end, an end that does not speak TLS. After an error, only send
// TakeOutgoing(), which informs the other end. Not thread-safe.

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
  // The trusted authorities. Empty: the system's.
  std::string authorities = {};
  // The certificate and key for a Redis that asks for them. Empty: none.
  std::string certificate = {};
  std::string key = {};
};

// OK if the files can be used; otherwise FailedPrecondition, naming flag and file.
absl::Status CheckRedisTlsFiles(const RedisTlsFiles& files);

class RedisTls {
 public:
  // Begins the client's side of a connection to `host`, a name or an address.
  static absl::StatusOr<std::unique_ptr<RedisTls>> Begin(const RedisTlsFiles& files,
                                                         const std::string& host);

  RedisTls(const RedisTls&) = delete;
  RedisTls& operator=(const RedisTls&) = delete;

  // Continues the handshake with the bytes received so far; returns whether it is done.
  absl::StatusOr<bool> Handshake();

  // After the handshake.
  absl::Status Write(std::string_view bytes);
  // Reads received data into `buffer`; returns the number of bytes, 0 if more has to come first.
  // Unavailable if the other end has closed.
  absl::StatusOr<size_t> Read(std::span<char> buffer);

  // The bytes to send, and the bytes received.
  std::string TakeOutgoing();
  void PutIncoming(std::string_view bytes);

 private:
  struct FreeSsl {
    void operator()(SSL* ssl) const { SSL_free(ssl); }
  };

  explicit RedisTls(std::unique_ptr<SSL, FreeSsl> ssl) : ssl_(std::move(ssl)) {}

  // The reason for the failure of a call that returned `result`.
  absl::Status Failure(int result) const;

  std::unique_ptr<SSL, FreeSsl> ssl_;
};

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_STORE_REDIS_REDIS_TLS_H_
