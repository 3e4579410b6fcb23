#include "client/cli/bench/target.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "proto/batchplan/v1/status.h"

namespace batchplan::cli {
namespace {

constexpr char kMethod[] = "/batchplan.v1.BatchPlanner/PlanBatch";

// One call under way.
struct Call {
  grpc::ClientContext context;
  grpc::ByteBuffer request;
  grpc::ByteBuffer response;
};

std::string Bytes(const grpc::ByteBuffer& buffer) {
  std::string bytes;
  std::vector<grpc::Slice> slices;
  if (buffer.Dump(&slices).ok()) {
    for (const grpc::Slice& slice : slices) {
      bytes.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
    }
  }
  return bytes;
}

}  // namespace

BenchTarget::BenchTarget(const std::string& address, const BenchTargetOptions& options,
                         const std::vector<v1::PlanBatchRequest>& requests)
    : options_(options), first_seed_(absl::ToUnixMicros(absl::Now())) {
  for (uint32_t i = 0; i < options.connections; ++i) {
    grpc::ChannelArguments arguments;
    arguments.SetMaxReceiveMessageSize(-1);
    arguments.SetMaxSendMessageSize(-1);
    // The benchmark measures single calls; a retry would hide the first attempt.
    arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
    // Otherwise channels to one address share one connection.
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    if (!options.server_name.empty()) arguments.SetSslTargetNameOverride(options.server_name);
    stubs_.push_back(std::make_unique<grpc::GenericStub>(grpc::CreateCustomChannel(
        address,
        options.credentials != nullptr ? options.credentials : grpc::InsecureChannelCredentials(),
        arguments)));
  }
  for (const v1::PlanBatchRequest& request : requests) {
    requests_.emplace_back(request.SerializeAsString());
  }
  for (uint32_t job = 0; options.jobs > 1 && job < options.jobs; ++job) {
    const std::string& name = requests.front().job_id();
    job_ids_.push_back(absl::StrCat(name.empty() ? "bench" : name, "-", job));
  }
}

grpc::ByteBuffer BenchTarget::NextRequest() {
  const uint64_t number = calls_.fetch_add(1, std::memory_order_relaxed);
  // In a serialized message the last value of a field wins, so this call's own fields follow the
  // shared bytes.
  v1::PlanBatchRequest own;
  if (!job_ids_.empty()) own.set_job_id(job_ids_[number % job_ids_.size()]);
  if (!options_.repeat) {
    own.set_step(number);
    own.mutable_mini_batches()->set_seed(first_seed_ + number);
  }
  const grpc::Slice slices[] = {requests_[number % requests_.size()],
                                grpc::Slice(own.SerializeAsString())};
  return grpc::ByteBuffer(slices, 2);
}

void BenchTarget::Begin(std::function<void(const absl::Status&)> done) {
  auto call = std::make_shared<Call>();
  call->context.set_deadline(absl::ToChronoTime(absl::Now() + options_.timeout));
  call->request = NextRequest();
  grpc::GenericStub& stub = *stubs_[calls_.load(std::memory_order_relaxed) % stubs_.size()];
  Call* const its = call.get();
  stub.UnaryCall(&its->context, kMethod, grpc::StubOptions(), &its->request, &its->response,
                 [call = std::move(call), done = std::move(done)](const grpc::Status& status) {
                   done(FromGrpcStatus(status));
                 });
}

AsyncCall BenchTarget::call() {
  return [this](std::function<void(const absl::Status&)> done) { Begin(std::move(done)); };
}

absl::StatusOr<std::string> BenchTarget::Probe() {
  Call call;
  call.context.set_deadline(absl::ToChronoTime(absl::Now() + options_.timeout));
  call.request = NextRequest();
  absl::Notification answered;
  absl::Status status;
  stubs_.front()->UnaryCall(&call.context, kMethod, grpc::StubOptions(), &call.request,
                            &call.response, [&](const grpc::Status& result) {
                              status = FromGrpcStatus(result);
                              answered.Notify();
                            });
  answered.WaitForNotification();
  if (!status.ok()) return status;
  return Bytes(call.response);
}

}  // namespace batchplan::cli
