#include "tests/support/certificates.h"

#include <openssl/bio.h>
#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <atomic>
#include <cstdlib>
#include <ctime>
#include <utility>

#include "absl/time/clock.h"

namespace batchplan {
namespace {

struct Free {
  void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
  void operator()(X509* certificate) const { X509_free(certificate); }
  void operator()(BIO* bio) const { BIO_free_all(bio); }
  void operator()(X509_EXTENSION* extension) const { X509_EXTENSION_free(extension); }
};

using Key = std::unique_ptr<EVP_PKEY, Free>;
using Certificate = std::unique_ptr<X509, Free>;

// These calls of libcrypto fail only if memory runs out.
template <typename T>
T Must(T result) {
  if (!result) std::abort();
  return result;
}

template <typename Write>
std::string Pem(const Write& write) {
  const std::unique_ptr<BIO, Free> bio(Must(BIO_new(BIO_s_mem())));
  Must(write(bio.get()));
  char* bytes = nullptr;
  const auto size = static_cast<size_t>(BIO_get_mem_data(bio.get(), &bytes));
  return {bytes, size};
}

void AddExtension(X509* certificate, int nid, const char* value) {
  const std::unique_ptr<X509_EXTENSION, Free> extension(
      Must(X509V3_EXT_conf_nid(nullptr, nullptr, nid, value)));
  Must(X509_add_ext(certificate, extension.get(), -1));
}

// An unsigned certificate; `issuer` is nullptr if it will sign itself.
Certificate NewCertificate(const std::string& common_name, EVP_PKEY* key, X509* issuer,
                           const Validity& validity) {
  static std::atomic<int64_t> last_serial = 0;
  Certificate certificate(Must(X509_new()));
  Must(X509_set_version(certificate.get(), 2));  // version 3, counted from 0
  Must(ASN1_INTEGER_set_int64(X509_get_serialNumber(certificate.get()), ++last_serial));
  const std::time_t now = absl::ToTimeT(absl::Now());
  Must(ASN1_TIME_set(X509_getm_notBefore(certificate.get()),
                     now + absl::ToInt64Seconds(validity.from)));
  Must(ASN1_TIME_set(X509_getm_notAfter(certificate.get()),
                     now + absl::ToInt64Seconds(validity.to)));
  Must(X509_set_pubkey(certificate.get(), key));
  X509_NAME* name = X509_get_subject_name(certificate.get());
  Must(X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC,
                                  reinterpret_cast<const unsigned char*>(common_name.data()),
                                  static_cast<int>(common_name.size()), -1, 0));
  Must(X509_set_issuer_name(certificate.get(),
                            issuer == nullptr ? name : X509_get_subject_name(issuer)));
  return certificate;
}

}  // namespace

struct CertificateAuthority::Keys {
  Key key;
  Certificate certificate;
};

CertificateAuthority::CertificateAuthority(const std::string& name)
    : keys_(std::make_unique<Keys>()) {
  keys_->key.reset(Must(EVP_EC_gen("P-256")));
  keys_->certificate = NewCertificate(name, keys_->key.get(), nullptr, {});
  AddExtension(keys_->certificate.get(), NID_basic_constraints, "critical,CA:TRUE");
  AddExtension(keys_->certificate.get(), NID_key_usage, "critical,keyCertSign,cRLSign");
  Must(X509_sign(keys_->certificate.get(), keys_->key.get(), EVP_sha256()));
  certificate_ =
      Pem([this](BIO* bio) { return PEM_write_bio_X509(bio, keys_->certificate.get()); });
}

CertificateAuthority::~CertificateAuthority() = default;

PemPair CertificateAuthority::Issue(const std::string& common_name, const Validity& validity,
                                    const char* names) const {
  const Key key(Must(EVP_EC_gen("P-256")));
  const Certificate certificate =
      NewCertificate(common_name, key.get(), keys_->certificate.get(), validity);
  AddExtension(certificate.get(), NID_subject_alt_name, names);
  Must(X509_sign(certificate.get(), keys_->key.get(), EVP_sha256()));
  return {.certificate =
              Pem([&certificate](BIO* bio) { return PEM_write_bio_X509(bio, certificate.get()); }),
          .key = Pem([&key](BIO* bio) {
            return PEM_write_bio_PrivateKey(bio, key.get(), nullptr, nullptr, 0, nullptr, nullptr);
          })};
}

}  // namespace batchplan
