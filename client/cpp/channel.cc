#include "client/cpp/channel.h"

#include <grpcpp/generic/generic_stub.h>

#include <chrono>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "proto/batchplan/v1/call_rules.h"
#include "proto/batchplan/v1/status.h"

namespace batchplan {
namespace {

// The longest watch. Watches end with their channel; should one not, it ends after this time.
constexpr std::chrono::seconds kWatch(1);

// A HealthCheckResponse whose status, its one field, is NOT_SERVING.
constexpr char kNotServing[] = "\x08\x02";

std::string Bytes(const grpc::ByteBuffer& buffer) {
  grpc::Slice slice;
  if (!buffer.DumpToSingleSlice(&slice).ok()) return "";
  return std::string(reinterpret_cast<const char*>(slice.begin()), slice.size());
}

}  // namespace

PolledChannel::PolledChannel(std::shared_ptr<grpc::Channel> channel)
    : channel_(std::move(channel)), poller_([this] { Poll(); }) {}

PolledChannel::~PolledChannel() {
  {
    const std::scoped_lock lock(mutex_);
    channel_.reset();
  }
  poller_.join();
}

// Watches the channel's state. While the queue waits for a change, gRPC reads from all connections
// of the channel; the state itself is not used.
void PolledChannel::Poll() {
  grpc::CompletionQueue watches;
  void* tag = nullptr;
  bool ok = false;
  for (;;) {
    {
      const std::scoped_lock lock(mutex_);
      if (channel_ == nullptr) break;
      channel_->NotifyOnStateChange(channel_->GetState(/*try_to_connect=*/false),
                                    std::chrono::system_clock::now() + kWatch, &watches, nullptr);
    }
    watches.Next(&tag, &ok);
  }
  watches.Shutdown();
  while (watches.Next(&tag, &ok)) {
  }
}

absl::Status ProbeHealth(const std::shared_ptr<grpc::Channel>& channel, absl::Duration timeout) {
  grpc::ClientContext context;
  context.set_deadline(absl::ToChronoTime(absl::Now() + timeout));
  context.set_wait_for_ready(true);
  // An empty HealthCheckRequest asks for the server as a whole.
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
