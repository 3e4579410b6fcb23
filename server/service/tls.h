// What a server shows of itself, and asks of its clients, when a connection begins.
//
//   absl::StatusOr<ServerCertificate> certificate = CheckTlsFiles(options);
//   builder.AddListeningPort(options.listen, MakeServerCredentials(options), &port);
//
// TLS 1.2 or later if the options name a certificate, else plain text. gRPC reads the files again
// every options.tls_reload_interval, and uses what they then hold for new connections.

#ifndef BATCHPLAN_SERVER_SERVICE_TLS_H_
#define BATCHPLAN_SERVER_SERVICE_TLS_H_

#include <grpcpp/security/server_credentials.h>

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/service/server_options.h"

namespace batchplan {

// The first certificate of --tls_certificate.
struct ServerCertificate {
  std::string subject;
  // In hexadecimal, as tools show it.
  std::string serial;
  absl::Time not_before;
  absl::Time not_after;

  friend bool operator==(const ServerCertificate&, const ServerCertificate&) = default;
};

// Looks at the files as gRPC would use them. FailedPrecondition, naming flag and file, if one can't
// be read, is not what it should be, or the key is not that of the certificate: gRPC itself would
// only drop connections. For options with a tls_certificate.
absl::StatusOr<ServerCertificate> CheckTlsFiles(const ServerOptions& options);

// For options whose files have been checked.
std::shared_ptr<grpc::ServerCredentials> MakeServerCredentials(const ServerOptions& options);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_SERVICE_TLS_H_
