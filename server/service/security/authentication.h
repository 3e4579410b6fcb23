// Who may call, and for which jobs.
//
//   credentials->SetAuthMetadataProcessor(std::make_shared<TokenProcessor>(&tokens, &metrics));
//   ... in a call, once its request is known ...
//   absl::Status allowed = CheckJobAllowed(&tokens, *context, request.job_id());
//
// A call carries its token as `authorization: Bearer TOKEN`. Without a token of the table it ends
// before its message is read; only grpc.health.v1 needs none, as probes know no secrets. Both steps
// look the token up: gRPC's AuthContext belongs to a connection, whose calls may carry different
// tokens, so nothing about a call can be kept there. Thread-safe; a lookup is a SHA-256 and a pass
// over the table, microseconds for hundreds of tokens.

#ifndef BATCHPLAN_SERVER_SERVICE_SECURITY_AUTHENTICATION_H_
#define BATCHPLAN_SERVER_SERVICE_SECURITY_AUTHENTICATION_H_

#include <grpcpp/grpcpp.h>
#include <grpcpp/security/auth_metadata_processor.h>

#include <atomic>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "server/service/security/tokens.h"
#include "server/telemetry/log.h"
#include "server/telemetry/metrics.h"

namespace batchplan {

// Log lines a second for refused calls, which anybody may cause.
inline constexpr double kRefusalsLogged = 5;

// Refuses calls without a token of the table: UNAUTHENTICATED, counted, and logged within the
// limit; a line says how many others there were.
class TokenProcessor final : public grpc::AuthMetadataProcessor {
 public:
  // Both must outlive the gRPC server.
  TokenProcessor(const Tokens* tokens, Metrics* metrics) : metrics_(metrics) {
    tokens_.store(tokens, std::memory_order_release);
  }

  // Not worth a thread.
  bool IsBlocking() const override { return false; }

  grpc::Status Process(const InputMetadata& metadata, grpc::AuthContext* connection,
                       OutputMetadata* consumed, OutputMetadata* response) override;

 private:
  Metrics* const metrics_;
  LogLimit log_limit_{kRefusalsLogged};
  // Set last and read first: orders the constructor before Process on a thread that gRPC already
  // had. gRPC orders them too, but ThreadSanitizer does not see that.
  std::atomic<const Tokens*> tokens_;
};

// OK if the call's token may plan for `job_id`, or if there are no tokens (nullptr).
// PermissionDenied, naming the job and the token's prefix; Unauthenticated if the token has been
// withdrawn since the call began.
absl::Status CheckJobAllowed(const Tokens* tokens, const grpc::ServerContextBase& call,
                             std::string_view job_id);

// The owner of a call, by what a caller can't choose freely: resources are shared between owners
// first, and then between the jobs that each names. With tokens, the name of the call's token (""
// if it is not in the table). Without tokens, the peer's address without its port; of an IPv6
// address the first 64 bits, since whoever has one of these addresses has them all. All callers
// over a Unix socket are one owner, and so are all behind one proxy.
std::string OwnerOf(const Tokens* tokens, const grpc::ServerContextBase& call);

// The owner without tokens, of a peer as gRPC names it, such as "ipv4:10.0.0.7:51234".
std::string OwnerOfPeer(std::string_view peer);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_SERVICE_SECURITY_AUTHENTICATION_H_
