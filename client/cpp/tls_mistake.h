// What is wrong with TLS between a client and its servers. gRPC calls both a certificate that one
// side refuses and a server that is gone UNAVAILABLE, of several addresses it names any, and of a
// client's certificate that is refused after the handshake it only knows that the socket was
// closed.

#ifndef BATCHPLAN_CLIENT_CPP_TLS_MISTAKE_H_
#define BATCHPLAN_CLIENT_CPP_TLS_MISTAKE_H_

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "batchplan/remote_connection.h"

namespace batchplan {

// Tries the servers of `target`, a gRPC name of TCP addresses, with handshakes of its own; `tls` is
// unset for plain text. Unauthenticated, naming an address and what is wrong there, if none of them
// can be spoken to for reasons that stay: a certificate or name that either side refuses, files
// that do not fit, plain text where the other side speaks TLS. OK if one can be, and where nothing
// is known: no connection, no answer, another kind of target.
//
// Blocks for `limit` at most, beside what looking up the name takes. Thread-safe.
absl::Status FindTlsMistake(const std::string& target, const std::optional<TlsOptions>& tls,
                            absl::Duration limit);

}  // namespace batchplan

#endif  // BATCHPLAN_CLIENT_CPP_TLS_MISTAKE_H_
