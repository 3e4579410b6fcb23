#include "server/store/redis/redis_tls.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/x509_vfy.h>
#include <openssl/x509v3.h>

#include <new>
#include <utility>

#include "absl/strings/str_cat.h"

namespace batchplan {
namespace {

struct FreeSslContext {
  void operator()(SSL_CTX* context) const { SSL_CTX_free(context); }
};
using SslContext = std::unique_ptr<SSL_CTX, FreeSslContext>;

// The reason for the failure of this thread's last call of OpenSSL.
std::string LastReason() {
  const char* const reason = ERR_reason_error_string(ERR_peek_last_error());
  ERR_clear_error();
  return reason == nullptr ? "no reason is given" : reason;
}

absl::Status FileError(const char* flag, const std::string& path) {
  return absl::FailedPreconditionError(
      absl::StrCat("--", flag, "=", path, " can't be used: ", LastReason()));
}

// Refuses a key with a password, instead of asking a terminal for it.
int NoPassword(char* /*buffer*/, int /*size*/, int /*writing*/, void* /*data*/) { return -1; }

absl::StatusOr<SslContext> NewContext(const RedisTlsFiles& files) {
  SslContext context(SSL_CTX_new(TLS_client_method()));
  if (context == nullptr) throw std::bad_alloc();
  SSL_CTX_set_min_proto_version(context.get(), TLS1_2_VERSION);
  SSL_CTX_set_verify(context.get(), SSL_VERIFY_PEER, nullptr);
  SSL_CTX_set_default_passwd_cb(context.get(), NoPassword);
  if (files.authorities.empty()) {
    if (SSL_CTX_set_default_verify_paths(context.get()) != 1) throw std::bad_alloc();
  } else if (SSL_CTX_load_verify_file(context.get(), files.authorities.c_str()) != 1) {
    return FileError("rendezvous_tls_ca", files.authorities);
  }
  if (files.certificate.empty()) return context;
  if (SSL_CTX_use_certificate_chain_file(context.get(), files.certificate.c_str()) != 1) {
    return FileError("rendezvous_tls_certificate", files.certificate);
  }
  // Fails too if the key is not that of the certificate.
  if (SSL_CTX_use_PrivateKey_file(context.get(), files.key.c_str(), SSL_FILETYPE_PEM) != 1) {
    return FileError("rendezvous_tls_key", files.key);
  }
  return context;
}

// Sets the host that the other end's certificate must name; false if none can name it.
bool Expect(SSL* ssl, const std::string& host) {
  if (X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), host.c_str()) == 1) return true;
  ERR_clear_error();
  SSL_set_hostflags(ssl, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
  return !host.empty() && SSL_set1_host(ssl, host.c_str()) == 1 &&
         SSL_set_tlsext_host_name(ssl, host.c_str()) == 1;
}

}  // namespace

absl::Status CheckRedisTlsFiles(const RedisTlsFiles& files) {
  ERR_clear_error();
  return NewContext(files).status();
}

absl::StatusOr<std::unique_ptr<RedisTls>> RedisTls::Begin(const RedisTlsFiles& files,
                                                          const std::string& host) {
  ERR_clear_error();
  const absl::StatusOr<SslContext> context = NewContext(files);
  if (!context.ok()) return context.status();
  std::unique_ptr<SSL, FreeSsl> ssl(SSL_new(context->get()));
  BIO* const incoming = BIO_new(BIO_s_mem());
  BIO* const outgoing = BIO_new(BIO_s_mem());
  if (ssl == nullptr || incoming == nullptr || outgoing == nullptr) {
    BIO_free(incoming);
    BIO_free(outgoing);
    throw std::bad_alloc();
  }
  SSL_set_bio(ssl.get(), incoming, outgoing);
  if (!Expect(ssl.get(), host)) {
    return absl::FailedPreconditionError(
        absl::StrCat("no certificate can be for the host ", host, ": ", LastReason()));
  }
  SSL_set_connect_state(ssl.get());
  return std::unique_ptr<RedisTls>(new RedisTls(std::move(ssl)));
}

absl::StatusOr<bool> RedisTls::Handshake() {
  ERR_clear_error();
  const int result = SSL_do_handshake(ssl_.get());
  if (result == 1) return true;
  if (SSL_get_error(ssl_.get(), result) == SSL_ERROR_WANT_READ) return false;
  const auto verdict = SSL_get_verify_result(ssl_.get());
  if (verdict == X509_V_OK) return Failure(result);
  ERR_clear_error();
  return absl::FailedPreconditionError(
      absl::StrCat("its certificate is not trusted: ", X509_verify_cert_error_string(verdict)));
}

absl::Status RedisTls::Write(std::string_view bytes) {
  size_t written = 0;
  ERR_clear_error();
  // Writes all bytes, since the memory behind it grows.
  const int result = SSL_write_ex(ssl_.get(), bytes.data(), bytes.size(), &written);
  return result == 1 ? absl::OkStatus() : Failure(result);
}

absl::StatusOr<size_t> RedisTls::Read(std::span<char> buffer) {
  size_t read = 0;
  ERR_clear_error();
  const int result = SSL_read_ex(ssl_.get(), buffer.data(), buffer.size(), &read);
  if (result == 1) return read;
  switch (SSL_get_error(ssl_.get(), result)) {
    case SSL_ERROR_WANT_READ:
      return 0;
    case SSL_ERROR_ZERO_RETURN:
      return absl::UnavailableError("it closed the connection");
    default:
      return Failure(result);
  }
}

std::string RedisTls::TakeOutgoing() {
  BIO* const outgoing = SSL_get_wbio(ssl_.get());
  std::string bytes(BIO_ctrl_pending(outgoing), '\0');
  size_t read = 0;
  if (!bytes.empty()) BIO_read_ex(outgoing, bytes.data(), bytes.size(), &read);
  bytes.resize(read);
  return bytes;
}

void RedisTls::PutIncoming(std::string_view bytes) {
  size_t written = 0;
  if (BIO_write_ex(SSL_get_rbio(ssl_.get()), bytes.data(), bytes.size(), &written) != 1) {
    throw std::bad_alloc();
  }
}

absl::Status RedisTls::Failure(int result) const {
  const int error = SSL_get_error(ssl_.get(), result);
  return absl::FailedPreconditionError(absl::StrCat(
      "TLS fails: ", error == SSL_ERROR_SSL ? LastReason() : absl::StrCat("error ", error)));
}

}  // namespace batchplan
