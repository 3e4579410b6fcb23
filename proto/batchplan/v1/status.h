// The one translation between absl::Status, which our code speaks, and grpc::Status. The two share
// their codes by number.

#ifndef BATCHPLAN_PROTO_V1_STATUS_H_
#define BATCHPLAN_PROTO_V1_STATUS_H_

#include <grpcpp/support/status.h>

#include <string>

#include "absl/status/status.h"

namespace batchplan {

inline grpc::Status ToGrpcStatus(const absl::Status& status) {
  return grpc::Status(static_cast<grpc::StatusCode>(status.code()), std::string(status.message()));
}

inline absl::Status FromGrpcStatus(const grpc::Status& status) {
  return absl::Status(static_cast<absl::StatusCode>(status.error_code()), status.error_message());
}

}  // namespace batchplan

#endif  // BATCHPLAN_PROTO_V1_STATUS_H_
