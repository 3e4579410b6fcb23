// A server's certificate, and what it asks of its clients, when a connection begins.
//
//   absl::StatusOr<ServerCertificate> certificate = CheckTlsFiles(files);
//   builder.AddListeningPort(address, MakeServerCredentials(files), &port);
//
// TLS 1.2 or later if there is a certificate, else plain text. gRPC reads the files again every
// files.reload_interval, for new connections.

#ifndef BATCHPLAN_SERVER_SERVICE_SECURITY_TLS_H_
#define BATCHPLAN_SERVER_SERVICE_SECURITY_TLS_H_

#include <grpcpp/security/server_credentials.h>

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace batchplan {

// The values of --tls_certificate, --tls_key, --tls_client_ca and --tls_reload_interval
// (server_options.h).
struct TlsFiles {
  std::string certificate;
  std::string key;
  std::string client_ca;
  absl::Duration reload_interval;
};

// The first certificate of --tls_certificate.
struct ServerCertificate {
  std::string subject;
  // In hexadecimal, as tools show it.
  std::string serial;
  absl::Time not_before;
  absl::Time not_after;

  friend bool operator==(const ServerCertificate&, const ServerCertificate&) = default;
};

// Checks the files as gRPC would use them. FailedPrecondition, naming flag and file, if a file
// can't be read or is of the wrong kind, or if the key does not belong to the certificate: gRPC
// itself would only drop connections. REQUIRES: files with a certificate.
absl::StatusOr<ServerCertificate> CheckTlsFiles(const TlsFiles& files);

// For files that have been checked.
std::shared_ptr<grpc::ServerCredentials> MakeServerCredentials(const TlsFiles& files);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_SERVICE_SECURITY_TLS_H_
