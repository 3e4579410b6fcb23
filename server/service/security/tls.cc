#include "server/service/security/tls.h"

#include <grpcpp/security/tls_certificate_provider.h>
#include <grpcpp/security/tls_credentials_options.h>
#include <openssl/bio.h>
#include <openssl/bn.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

#include <ctime>
#include <fstream>
#include <sstream>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace batchplan {
namespace {

template <auto Free>
struct Freer {
  template <typename T>
  void operator()(T* pointer) const {
    Free(pointer);
  }
};

using Bio = std::unique_ptr<BIO, Freer<BIO_free_all>>;
using Certificate = std::unique_ptr<X509, Freer<X509_free>>;
using Key = std::unique_ptr<EVP_PKEY, Freer<EVP_PKEY_free>>;

absl::Status FileError(const char* flag, const std::string& path, const std::string& what) {
  ERR_clear_error();
  return absl::FailedPreconditionError(absl::StrCat("--", flag, "=", path, ": ", what));
}

absl::StatusOr<Bio> Open(const char* flag, const std::string& path) {
  Bio file(BIO_new_file(path.c_str(), "r"));
  if (file == nullptr) return FileError(flag, path, "can't be read");
  return file;
}

// All certificates in a PEM file, which has at least one.
absl::StatusOr<std::vector<Certificate>> ReadCertificates(const char* flag,
                                                          const std::string& path) {
  absl::StatusOr<Bio> file = Open(flag, path);
  if (!file.ok()) return file.status();
  std::vector<Certificate> certificates;
  while (X509* next = PEM_read_bio_X509(file->get(), nullptr, nullptr, nullptr)) {
    certificates.emplace_back(next);
  }
  // At the end of a file OpenSSL reports a particular error; any other one means a broken file.
  const bool at_end = ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE;
  if (certificates.empty()) return FileError(flag, path, "holds no PEM certificate");
  if (!at_end) {
    return FileError(flag, path,
                     absl::StrCat("certificate ", certificates.size() + 1, " can't be parsed"));
  }
  ERR_clear_error();
  return certificates;
}

// Refuses a key with a password, instead of asking a terminal for it.
int NoPassword(char* /*buffer*/, int /*size*/, int /*writing*/, void* /*data*/) { return -1; }

absl::StatusOr<Key> ReadKey(const char* flag, const std::string& path) {
  absl::StatusOr<Bio> file = Open(flag, path);
  if (!file.ok()) return file.status();
  Key key(PEM_read_bio_PrivateKey(file->get(), nullptr, NoPassword, nullptr));
  if (key == nullptr) {
    return FileError(flag, path, "holds no PEM private key, or one with a password");
  }
  return key;
}

absl::Time ToTime(const ASN1_TIME* time) {
  std::tm fields{};
  if (ASN1_TIME_to_tm(time, &fields) != 1) return absl::InfinitePast();
  return absl::FromTimeT(timegm(&fields));
}

std::string SubjectOf(const X509* certificate) {
  const Bio text(BIO_new(BIO_s_mem()));
  X509_NAME_print_ex(text.get(), X509_get_subject_name(certificate), 0, XN_FLAG_RFC2253);
  char* bytes = nullptr;
  const auto size = static_cast<size_t>(BIO_get_mem_data(text.get(), &bytes));
  return {bytes, size};
}

std::string SerialOf(const X509* certificate) {
  const std::unique_ptr<BIGNUM, Freer<BN_free>> number(
      ASN1_INTEGER_to_BN(X509_get0_serialNumber(certificate), nullptr));
  char* hexadecimal = number == nullptr ? nullptr : BN_bn2hex(number.get());
  std::string serial = hexadecimal == nullptr ? "" : hexadecimal;
  OPENSSL_free(hexadecimal);
  return serial;
}

}  // namespace

absl::StatusOr<ServerCertificate> CheckTlsFiles(const TlsFiles& files) {
  const auto certificates = ReadCertificates("tls_certificate", files.certificate);
  if (!certificates.ok()) return certificates.status();
  const absl::StatusOr<Key> key = ReadKey("tls_key", files.key);
  if (!key.ok()) return key.status();
  const X509* const first = certificates->front().get();
  if (X509_check_private_key(first, key->get()) != 1) {
    return FileError("tls_key", files.key,
                     absl::StrCat("is not the key of --tls_certificate=", files.certificate));
  }
  if (!files.client_ca.empty()) {
    const auto authorities = ReadCertificates("tls_client_ca", files.client_ca);
    if (!authorities.ok()) return authorities.status();
  }
  return ServerCertificate{.subject = SubjectOf(first),
                           .serial = SerialOf(first),
                           .not_before = ToTime(X509_get0_notBefore(first)),
                           .not_after = ToTime(X509_get0_notAfter(first))};
}

std::shared_ptr<grpc::ServerCredentials> MakeServerCredentials(const TlsFiles& files) {
  if (files.certificate.empty()) return grpc::InsecureServerCredentials();
  const auto seconds = static_cast<unsigned>(absl::ToInt64Seconds(files.reload_interval));
  // gRPC itself negotiates TLS 1.2 or 1.3.
  grpc::experimental::TlsServerCredentialsOptions tls(
      std::make_shared<grpc::experimental::FileWatcherCertificateProvider>(
          files.key, files.certificate, files.client_ca, seconds));
  tls.watch_identity_key_cert_pairs();
  if (files.client_ca.empty()) {
    tls.set_cert_request_type(GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE);
  } else {
    tls.watch_root_certs();
    tls.set_cert_request_type(GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
  }
  return grpc::experimental::TlsServerCredentials(tls);
}

}  // namespace batchplan
