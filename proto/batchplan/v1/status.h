// The one translation between absl::Status, which our code speaks, and grpc::Status. The two share
// their codes by number.

#ifndef BATCHPLAN_PROTO_V1_STATUS_H_
#define BATCHPLAN_PROTO_V1_STATUS_H_

#include <grpcpp/support/status.h>

#include "absl/status/status.h"

namespace batchplan {

grpc::Status ToGrpcStatus(const absl::Status& status);
absl::Status FromGrpcStatus(const grpc::Status& status);

}  // namespace batchplan

#endif  // BATCHPLAN_PROTO_V1_STATUS_H_
