// A channel's credentials from RemoteOptions: TLS and a bearer token.

#ifndef BATCHPLAN_CLIENT_CPP_CHANNEL_CREDENTIALS_H_
#define BATCHPLAN_CLIENT_CPP_CHANNEL_CREDENTIALS_H_

#include <grpcpp/grpcpp.h>

#include <memory>

#include "absl/status/statusor.h"
#include "batchplan/remote_connection.h"

namespace batchplan {

// For valid options. Unauthenticated, naming the field and the file, if a file can't be read or
// holds no token: gRPC would only say that the server can't be reached. The channel reads the files
// again when they change.
absl::StatusOr<std::shared_ptr<grpc::ChannelCredentials>> MakeChannelCredentials(
    const RemoteOptions& options);

// The errors for the token file as it is now; OK without one.
absl::Status CheckTokenFile(const RemoteOptions& options);

}  // namespace batchplan

#endif  // BATCHPLAN_CLIENT_CPP_CHANNEL_CREDENTIALS_H_
