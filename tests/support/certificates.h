// Certificates for tests, made in memory.
//
//   CertificateAuthority authority("test authority");
//   PemPair server = authority.Issue("server");
//
// A certificate is for localhost and 127.0.0.1 unless told otherwise, with a key of its own on the
// curve P-256.

#ifndef BATCHPLAN_TESTS_SUPPORT_CERTIFICATES_H_
#define BATCHPLAN_TESTS_SUPPORT_CERTIFICATES_H_

#include <memory>
#include <string>

#include "absl/time/time.h"

namespace batchplan {

// A certificate and its key, as PEM files have them.
struct PemPair {
  std::string certificate;
  std::string key;
};

// The time in which a certificate is valid, relative to now.
struct Validity {
  absl::Duration from = -absl::Hours(1);
  absl::Duration to = absl::Hours(24);
};

class CertificateAuthority {
 public:
  explicit CertificateAuthority(const std::string& name);
  ~CertificateAuthority();

  const std::string& certificate() const { return certificate_; }

  PemPair Issue(const std::string& common_name, const Validity& validity = {},
                const char* names = "DNS:localhost,IP:127.0.0.1") const;

 private:
  struct Keys;

  std::unique_ptr<Keys> keys_;
  std::string certificate_;
};

}  // namespace batchplan

#endif  // BATCHPLAN_TESTS_SUPPORT_CERTIFICATES_H_
