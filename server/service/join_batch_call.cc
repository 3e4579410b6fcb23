#include "server/service/join_batch_call.h"

#include <cstdint>
#include <memory>
#include <utility>

#include "proto/batchplan/v1/convert.h"
#include "server/rendezvous/part.h"
#include "server/rendezvous/slice.h"
#include "server/service/message_bytes.h"
#include "server/service/rpc_status.h"

namespace batchplan {
namespace {

static_assert(kMaxIdBytes == kMaxJobIdBytes);

uint64_t Microbatches(const v1::PlanBatchResponse& plan) {
  uint64_t microbatches = 0;
  for (const v1::PassPlan& pass : plan.passes()) microbatches += pass.row_widths_size();
  return microbatches;
}

// The bytes that all workers of a step share, without a copy.
grpc::ByteBuffer SharedBytes(const std::shared_ptr<const JoinedPlan>& joined) {
  const std::string& bytes = joined->Serialized();
  auto* share = new std::shared_ptr<const JoinedPlan>(joined);
  const grpc::Slice slice(
      // gRPC does not write into what it sends.
      const_cast<char*>(bytes.data()), bytes.size(),
      [](void* data) { delete static_cast<std::shared_ptr<const JoinedPlan>*>(data); }, share);
  return grpc::ByteBuffer(&slice, 1);
}

}  // namespace

JoinBatchCall::JoinBatchCall(const CallEnvironment& environment, CollectivePlanner* planner,
                             const RawCall& raw)
    : UnaryCall({.name = "JoinBatch", .outline = OutlineJoinBatch}, environment, raw),
      planner_(planner) {}

void JoinBatchCall::Run() {
  v1::JoinBatchRequest request;
  absl::Status status = ParseBytes(request_bytes(), &request);
  status.Update(CheckOutlined(request.request()));
  // The rendezvous puts fitted costs in the place of whatever stands there.
  status.Update(CheckFittedStandsAlone(request.request().cost_model()));
  if (!status.ok()) return Answer(status);
  std::optional<Slice> slice;
  if (request.own_slice_only()) {
    slice = {.data_parallel = request.request().topology().data_parallel(),
             .rank = request.data_parallel_rank()};
  }
  const Rendezvous::Ticket ticket =
      planner_->Join(std::move(request), owner(), caller().deadline,
                     [this, slice, self = self()](const Rendezvous::Answer& joined) {
                       if (!joined.ok()) return Answer(joined.status());
                       absl::StatusOr<CallAnswer> answer = absl::UnknownError("");
                       const absl::Status status = CatchExceptions([&] {
                         answer = AnswerFor(*joined, slice);
                         return answer.status();
                       });
                       Answer(status.ok() ? std::move(answer) : status);
                     });
  leave_.emplace(stop(), [planner = planner_, ticket] { planner->Cancel(ticket); });
}

absl::StatusOr<CallAnswer> JoinBatchCall::AnswerFor(const std::shared_ptr<const JoinedPlan>& joined,
                                                    const std::optional<Slice>& slice) {
  if (!slice.has_value()) {
    if (joined->Serialized().empty()) {
      return absl::ResourceExhaustedError("the plan is larger than protobuf's limit of 2 GiB");
    }
    return CallAnswer{.response = SharedBytes(joined),
                      .microbatches = Microbatches(joined->plan),
                      .shared = joined};
  }
  v1::JoinBatchResponse response;
  SliceForRank(joined->plan, slice->data_parallel, slice->rank, response.mutable_plan());
  response.mutable_worker_offsets()->Add(joined->worker_offsets.begin(),
                                         joined->worker_offsets.end());
  absl::StatusOr<grpc::ByteBuffer> bytes = ToBytes(response);
  if (!bytes.ok()) return bytes.status();
  return CallAnswer{.response = *bytes, .microbatches = Microbatches(response.plan())};
}

}  // namespace batchplan
