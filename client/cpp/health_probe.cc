#include "client/cpp/health_probe.h"

#include <grpcpp/generic/generic_stub.h>

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "proto/batchplan/v1/call_rules.h"
#include "proto/batchplan/v1/status.h"

namespace batchplan {
namespace {

// A HealthCheckResponse whose status, its one field, is NOT_SERVING.
constexpr char kNotServing[] = "\x08\x02";

std::string Bytes(const grpc::ByteBuffer& buffer) {
  grpc::Slice slice;
  if (!buffer.DumpToSingleSlice(&slice).ok()) return "";
  return std::string(reinterpret_cast<const char*>(slice.begin()), slice.size());
}

}  // namespace

absl::Status ProbeHealth(const std::shared_ptr<grpc::Channel>& channel, absl::Duration timeout) {
  grpc::ClientContext context;
  context.set_deadline(absl::ToChronoTime(absl::Now() + timeout));
  context.set_wait_for_ready(true);
  // An empty HealthCheckRequest: the server as a whole.
  const grpc::Slice nothing;
  const grpc::ByteBuffer request(&nothing, 1);
  grpc::ByteBuffer response;
  grpc::Status status;
  absl::Notification done;
  grpc::GenericStub stub(channel);
  stub.UnaryCall(&context, "/grpc.health.v1.Health/Check", grpc::StubOptions(), &request, &response,
                 [&](grpc::Status ended) {
                   status = std::move(ended);
                   done.Notify();
                 });
  done.WaitForNotification();
  if (status.ok()) {
    if (Bytes(response) != kNotServing) return absl::OkStatus();
    return absl::UnavailableError("the server says that it does not serve");
  }
  if (!IsNoAnswer(FromGrpcStatus(status).code())) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat("no server has answered for a while, nor within ",
                                             absl::FormatDuration(timeout),
                                             " now: ", status.error_message()));
}

}  // namespace batchplan
