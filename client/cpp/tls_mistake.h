// Finds what is wrong with TLS between a client and its servers. gRPC reports UNAVAILABLE both for
// a certificate that one side refuses and for a server that is gone, names any one of several
// addresses, and if a client's certificate is refused after the handshake, knows only that the
// socket was closed.

#ifndef BATCHPLAN_CLIENT_CPP_TLS_MISTAKE_H_
#define BATCHPLAN_CLIENT_CPP_TLS_MISTAKE_H_

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "batchplan/remote_connection.h"

namespace batchplan {

// Tries the servers of `target`, a gRPC name of TCP addresses, with handshakes of its own; `tls` is
// unset for plain text. Unauthenticated, naming an address and what is wrong there, if no server
// can be used, for lasting reasons: a certificate or name that either side refuses, files that do
// not fit, plain text while the other side speaks TLS. OK if one server can be used, or if nothing
// is known: no connection, no answer, another kind of target.
//
// Blocks for at most `limit` and the look-up of the name. Thread-safe.
absl::Status FindTlsMistake(const std::string& target, const std::optional<TlsOptions>& tls,
                            absl::Duration limit);

}  // namespace batchplan

#endif  // BATCHPLAN_CLIENT_CPP_TLS_MISTAKE_H_
