#include "server/service/rpc/planner_service.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/clock.h"
#include "batchplan/v1/batch_planner.pb.h"
#include "proto/batchplan/v1/convert.h"
#include "proto/batchplan/v1/known_fields.h"
#include "server/rendezvous/joined_plan.h"
#include "server/rendezvous/rendezvous.h"
#include "server/service/admission/request_limits.h"
#include "server/service/admission/rpc_status.h"
#include "server/service/planning/collective_planner.h"
#include "server/service/planning/job_fits.h"
#include "server/service/planning/message_bytes.h"
#include "server/service/planning/plan_batch.h"
#include "server/service/planning/plan_observers.h"
#include "server/service/rpc/unary_call.h"

namespace batchplan {
namespace {

// A request for fitted costs runs in three stages: a planning thread parses it, a thread of the
// store sets its costs, and a planning thread plans it.
class PlanBatchCall final : public UnaryCall {
 public:
  PlanBatchCall(const CallEnvironment& environment, const PlanBatchConfig& config, JobFits* fits,
                const RawCall& raw)
      : UnaryCall({.name = "PlanBatch", .outline = OutlinePlanBatch}, environment, raw),
        config_(config),
        fits_(fits) {}

 private:
  // What Run does next.
  enum class Stage { kParse, kSetCosts, kPlan };

  // Refuses a request whose plan would be too large to send.
  absl::Status Queue() override {
    absl::Status fits = CheckAnswerFits(outline(), config_.max_message_bytes);
    return fits.ok() ? QueueToPlan() : fits;
  }
  void Run() override;
  // Queues the call again if the request asks for fitted costs.
  absl::Status Parse();
  // Puts the fitted costs in their place and queues the call again.
  absl::Status SetCosts();
  // Plans and serializes.
  absl::StatusOr<CallAnswer> Plan();

  const PlanBatchConfig& config_;
  JobFits* const fits_;
  Stage stage_ = Stage::kParse;
  v1::PlanBatchRequest request_;
};

void PlanBatchCall::Run() {
  absl::Status status;
  if (stage_ == Stage::kParse)
    status = Parse();
  else if (stage_ == Stage::kSetCosts)
    status = SetCosts();
  else
    return Answer(Plan());
  if (!status.ok()) Answer(status);
}

absl::Status PlanBatchCall::Parse() {
  absl::Status status = ParseBytes(request_bytes(), &request_);
  status.Update(CheckOutlined(request_));
  status.Update(CheckFieldsKnown(request_));
  if (!status.ok()) return status;
  if (request_.cost_model().fitted()) {
    stage_ = Stage::kSetCosts;
    return QueueForStore();
  }
  Answer(Plan());
  return absl::OkStatus();
}

absl::Status PlanBatchCall::SetCosts() {
  absl::StatusOr<v1::CostModel> costs = FittedCostModel(fits_, request_);
  if (!costs.ok()) return costs.status();
  *request_.mutable_cost_model() = *std::move(costs);
  stage_ = Stage::kPlan;
  return QueueToPlan();
}

absl::StatusOr<CallAnswer> PlanBatchCall::Plan() {
  const absl::StatusOr<PlannedBatch> planned = PlanOrRecall(config_, &request_, caller());
  if (!planned.ok()) return planned.status();
  const absl::StatusOr<grpc::ByteBuffer> response = planned->plan->Answer(planned->planning_time);
  if (!response.ok()) return response.status();
  CallAnswer answer = {.response = *response, .microbatches = planned->plan->microbatches()};
  if (config_.cache != nullptr) answer.recalled = planned->recalled;
  answer.shared = planned->plan;
  return answer;
}

uint64_t Microbatches(const v1::PlanBatchResponse& plan) {
  uint64_t microbatches = 0;
  for (const v1::PassPlan& pass : plan.passes()) microbatches += pass.row_widths_size();
  return microbatches;
}

// The answer's bytes, which all workers of a step share without a copy.
grpc::ByteBuffer SharedBytes(const std::shared_ptr<const JoinedPlan>& joined) {
  const std::string& bytes = joined->Serialized();
  auto* share = new std::shared_ptr<const JoinedPlan>(joined);
  const grpc::Slice slice(
      // gRPC does not write into what it sends.
      const_cast<char*>(bytes.data()), bytes.size(),
      [](void* data) { delete static_cast<std::shared_ptr<const JoinedPlan>*>(data); }, share);
  return grpc::ByteBuffer(&slice, 1);
}

// Read by a thread of the store's, it then waits for the other workers without holding any.
class JoinBatchCall final : public UnaryCall {
 public:
  JoinBatchCall(const CallEnvironment& environment, CollectivePlanner* planner, const RawCall& raw)
      : UnaryCall({.name = "JoinBatch", .outline = OutlineJoinBatch}, environment, raw),
        planner_(planner) {}

 private:
  absl::Status Queue() override { return QueueForStore(); }
  // Parses and joins.
  void Run() override;
  void Delivered() override { planner_->Served(*served_); }
  absl::StatusOr<CallAnswer> AnswerFor(const std::shared_ptr<const JoinedPlan>& joined,
                                       const std::optional<AskedSlice>& slice,
                                       bool return_request) const;

  CollectivePlanner* const planner_;
  // Once there is a plan.
  std::optional<ServedWorker> served_;
  // Leaves the step when the call is cancelled.
  std::optional<std::stop_callback<std::function<void()>>> leave_;
};

void JoinBatchCall::Run() {
  v1::JoinBatchRequest request;
  absl::Status status = ParseBytes(request_bytes(), &request);
  status.Update(CheckOutlined(request.request()));
  status.Update(CheckFieldsKnown(request));
  // The rendezvous puts fitted costs in the place of whatever stands there.
  const v1::CostModel& costs = request.request().cost_model();
  if (costs.fitted()) status.Update(CheckFittedStandsAlone(costs));
  if (!status.ok()) return Answer(status);
  // A join that waits keeps its part, and not the message too.
  DropRequestBytes();
  std::optional<AskedSlice> slice;
  if (request.own_slice_only()) {
    slice = {.data_parallel = request.request().topology().data_parallel(),
             .rank = request.data_parallel_rank()};
    if (request.own_part_only()) slice->own_part_of = request.worker();
  }
  const bool return_request = request.return_request();
  const uint32_t worker = request.worker();
  const Rendezvous::Ticket ticket = planner_->Join(
      std::move(request), owner(), caller().deadline,
      [this, slice, return_request, worker, self = self()](const Rendezvous::Answer& joined) {
        if (!joined.ok()) return Answer(joined.status());
        absl::StatusOr<CallAnswer> answer = absl::UnknownError("");
        const absl::Status status = CatchExceptions([&] {
          answer = AnswerFor(*joined, slice, return_request);
          served_ = {
              .key = (*joined)->key, .incarnation = (*joined)->incarnation, .worker = worker};
          return answer.status();
        });
        Answer(status.ok() ? std::move(answer) : status);
      });
  leave_.emplace(stop(), [planner = planner_, ticket] { planner->Cancel(ticket); });
}

absl::StatusOr<CallAnswer> JoinBatchCall::AnswerFor(const std::shared_ptr<const JoinedPlan>& joined,
                                                    const std::optional<AskedSlice>& slice,
                                                    bool return_request) const {
  if (!slice.has_value() && !return_request) {
    if (joined->Serialized().empty()) {
      return absl::ResourceExhaustedError("the plan is larger than protobuf's limit of 2 GiB");
    }
    absl::Status sendable =
        CheckSendable(joined->Serialized().size(), planner_->max_message_bytes());
    if (!sendable.ok()) return sendable;
    return CallAnswer{.response = SharedBytes(joined),
                      .microbatches = Microbatches(joined->plan()),
                      .shared = joined};
  }
  v1::JoinBatchResponse response;
  if (slice.has_value()) {
    SliceForRank(joined->whole, *slice, &response);
  } else {
    response = joined->whole;
  }
  if (return_request) *response.mutable_request() = *joined->request;
  absl::StatusOr<grpc::ByteBuffer> bytes = ToBytes(response);
  if (!bytes.ok()) return bytes.status();
  absl::Status sendable = CheckSendable(bytes->Length(), planner_->max_message_bytes());
  if (!sendable.ok()) return sendable;
  return CallAnswer{.response = *bytes, .microbatches = Microbatches(response.plan())};
}

FitRecord FitOf(const v1::ReportStepResponse& response) {
  constexpr double kMillisecond = 1e-3;
  const v1::CostModel& costs = response.fitted();
  FitRecord fit = {.seconds_per_token = kMillisecond * costs.per_token(),
                   .seconds_per_token_squared = kMillisecond * costs.per_token_squared(),
                   .seconds_per_microbatch = kMillisecond * costs.per_microbatch(),
                   .seconds_per_sequence = kMillisecond * costs.per_sequence(),
                   .error_ratio = response.fit_error(),
                   .samples = response.samples()};
  for (const v1::LoadCost& load : costs.loads()) {
    fit.seconds_per_load_unit[load.load()] = kMillisecond * load.per_unit();
  }
  // Groups of one rank have no entry.
  auto exchange = costs.exchange().begin();
  for (const uint32_t ranks : response.context_sizes()) {
    if (ranks == 1 || exchange == costs.exchange().end()) continue;
    fit.seconds_exchanged_per_token[ContextSizePlace(ranks)] =
        kMillisecond * (exchange++)->per_token();
  }
  return fit;
}

// Runs on the threads for reports.
class ReportStepCall final : public UnaryCall {
 public:
  ReportStepCall(const CallEnvironment& environment, const PlanBatchConfig& config, JobFits* fits,
                 const RawCall& raw)
      : UnaryCall({.name = "ReportStep",
                   .outline = OutlineReportStep,
                   .store_threads = &CallEnvironment::report_threads},
                  environment, raw),
        fits_(fits),
        observers_(config.observers) {}

 private:
  // The reports of a job run one after the other, since they update one state.
  absl::Status Queue() override { return QueueForStore(outline().job_id.text); }
  void Run() override { Answer(Report()); }
  absl::StatusOr<CallAnswer> Report();

  JobFits* const fits_;
  const PlanObservers& observers_;
};

absl::StatusOr<CallAnswer> ReportStepCall::Report() {
  v1::ReportStepRequest request;
  absl::Status status = ParseBytes(request_bytes(), &request);
  status.Update(CheckOutlined(request.job_id()));
  status.Update(CheckFieldsKnown(request));
  if (!status.ok()) return status;
  v1::ReportStepResponse response;
  const absl::StatusOr<std::optional<MeasuredStep>> measured =
      ReportStep(fits_, owner(), request, &response);
  if (!measured.ok()) return measured.status();
  if (response.has_fitted()) {
    observers_.metrics->RecordJobFit(request.job_id(), FitOf(response), absl::Now());
  }
  if (*measured) ObserveStep(observers_, request.job_id(), request.step(), **measured);
  absl::StatusOr<grpc::ByteBuffer> bytes = ToBytes(response);
  if (!bytes.ok()) return bytes.status();
  return CallAnswer{.response = *bytes};
}

}  // namespace

PlannerService::PlannerService(const CallEnvironment& environment, const PlanBatchConfig& config,
                               CollectivePlanner* collective, JobFits* fits)
    : environment_(environment), config_(config), collective_(collective), fits_(fits) {}

grpc::ServerUnaryReactor* PlannerService::PlanBatch(grpc::CallbackServerContext* context,
                                                    const grpc::ByteBuffer* request,
                                                    grpc::ByteBuffer* response) {
  return UnaryCall::Start(std::make_shared<PlanBatchCall>(environment_, config_, fits_,
                                                          RawCall{context, request, response}));
}

grpc::ServerUnaryReactor* PlannerService::JoinBatch(grpc::CallbackServerContext* context,
                                                    const grpc::ByteBuffer* request,
                                                    grpc::ByteBuffer* response) {
  return UnaryCall::Start(std::make_shared<JoinBatchCall>(environment_, collective_,
                                                          RawCall{context, request, response}));
}

grpc::ServerUnaryReactor* PlannerService::ReportStep(grpc::CallbackServerContext* context,
                                                     const grpc::ByteBuffer* request,
                                                     grpc::ByteBuffer* response) {
  return UnaryCall::Start(std::make_shared<ReportStepCall>(environment_, config_, fits_,
                                                           RawCall{context, request, response}));
}

}  // namespace batchplan
