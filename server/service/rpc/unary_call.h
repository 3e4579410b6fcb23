// One call in flight, of any method: the part that all methods share.
//
//   class PlanBatchCall final : public UnaryCall {
//    public:
//     explicit PlanBatchCall(const CallEnvironment& environment, const RawCall& raw)
//         : UnaryCall({"PlanBatch", OutlinePlanBatch}, environment, raw) {}
//    private:
//     void Run() override { Answer(...); }  // a CallAnswer, or a status that is not OK
//   };
//
//   return UnaryCall::Start(std::make_shared<PlanBatchCall>(environment, raw));
//
// gRPC's thread outlines a call and checks its limits; the call waits for its job's turn, and a
// planning thread (or one of the store's) runs it. It is answered exactly once: by the first
// Answer, from any thread and at any time; later ones do nothing. Run may return without an answer
// and give it later, holding no thread meanwhile; whoever answers later keeps the call alive by
// self(). If a call is cancelled or its deadline passes, one of gRPC's threads requests a stop of
// stop(): a call that waits for something lets go of it by a std::stop_callback. A call that still
// waits for its turn to plan, or for a thread of the store's, leaves the queue and is answered at
// once. Exceptions from Run are answers too.
//
// An answer is counted, sent, if there is room for answers that its caller has not read yet, and
// logged in one line with all names of the call. Answer, self, stop and the like are thread-safe.

#ifndef BATCHPLAN_SERVER_SERVICE_RPC_UNARY_CALL_H_
#define BATCHPLAN_SERVER_SERVICE_RPC_UNARY_CALL_H_

#include <grpcpp/grpcpp.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>

#include "absl/status/statusor.h"
#include "server/service/admission/byte_budget.h"
#include "server/service/admission/planning_limit.h"
#include "server/service/admission/planning_pool.h"
#include "server/service/admission/request_limits.h"
#include "server/service/admission/request_outline.h"
#include "server/service/admission/store_threads.h"
#include "server/service/admission/unsent_answers.h"
#include "server/service/rpc/calls_in_flight.h"
#include "server/service/security/tokens.h"
#include "server/telemetry/metrics.h"

namespace batchplan {

// What all calls of a server share. Outlives them.
struct CallEnvironment {
  PlanningPool* pool = nullptr;
  StoreThreads* store_threads = nullptr;
  // For reports, which wait for each other, so that they don't delay calls that a training step
  // waits for.
  StoreThreads* report_threads = nullptr;
  // For calls that wait for the store or for other workers.
  ByteBudget* waiting_bytes = nullptr;
  // Null: there is no limit.
  UnsentAnswers* unsent = nullptr;
  Metrics* metrics = nullptr;
  // Tells calls that the server shuts down; null: they are never told.
  CallsInFlight* calls = nullptr;
  // Restrict callers to the jobs of their tokens; null: all may plan for all jobs.
  const Tokens* tokens = nullptr;
  RequestLimits limits;
};

// A method's name in logs, how to outline its requests, and which threads wait for the store.
struct Method {
  const char* name;
  RequestOutline (*outline)(const grpc::ByteBuffer& request);
  StoreThreads* CallEnvironment::*store_threads = &CallEnvironment::store_threads;
};

// What gRPC passes to a method's handler and keeps until the call is done. gRPC's own request is
// not const.
struct RawCall {
  grpc::CallbackServerContext* context = nullptr;
  const grpc::ByteBuffer* request = nullptr;
  grpc::ByteBuffer* response = nullptr;
};

struct CallAnswer {
  // Serialized.
  grpc::ByteBuffer response;
  // For the log: the plan's micro-batches, if there is a plan.
  std::optional<uint64_t> microbatches = std::nullopt;
  // For the log: whether the plan came from the cache, if there is one.
  std::optional<bool> recalled = std::nullopt;
  // The owner of the response's bytes, if other answers share them.
  std::shared_ptr<const void> shared = nullptr;
};

class UnaryCall : public grpc::ServerUnaryReactor, public std::enable_shared_from_this<UnaryCall> {
 public:
  UnaryCall(const Method& method, const CallEnvironment& environment, const RawCall& raw);
  ~UnaryCall() override;

  // Begins `call`; its method's handler returns the result to gRPC.
  static grpc::ServerUnaryReactor* Start(std::shared_ptr<UnaryCall> call);

  void OnCancel() final;
  void OnDone() final;

  // Stops the call like OnCancel, but because the server shuts down: it is answered with
  // UNAVAILABLE, unless it has an answer other than that of a stop.
  void CutShort();
  // gRPC's name of the peer; until OnDone.
  std::string peer() const { return raw_.context->peer(); }

 protected:
  // Queues the call for Run, or returns why not. Called when the call begins; methods override it
  // to queue elsewhere than for planning. Run may queue the call again instead of answering.
  virtual absl::Status Queue() { return QueueToPlan(); }
  // For a planning thread, in the job's turn.
  absl::Status QueueToPlan();
  // For one of the method's threads that may wait for the store; if `turn` is not empty, after
  // earlier calls of the same turn.
  absl::Status QueueForStore(const std::string& turn = "");

  // Does the call's work. Not called once it was answered or cancelled.
  virtual void Run() = 0;

  // Called once the answer has been sent without an error, on one of gRPC's threads.
  virtual void Delivered() {}

  // If memory runs out even here the process ends: the caller must not wait for ever.
  void Answer(absl::StatusOr<CallAnswer> answer) noexcept;

  std::shared_ptr<UnaryCall> self() { return shared_from_this(); }
  // gRPC's, until the call is answered.
  const grpc::ByteBuffer& request_bytes() const { return *raw_.request; }
  // Frees the request's bytes once nothing reads them any more.
  void DropRequestBytes();
  const RequestOutline& outline() const { return outline_; }
  // InvalidArgument if the parsed request is of another job than it was admitted for, or asks for
  // more.
  absl::Status CheckOutlined(const std::string& job_id) const;
  absl::Status CheckOutlined(const v1::PlanBatchRequest& request) const;
  // The owner of the call (authentication.h).
  const std::string& owner() const { return owner_; }
  // The request's own, or one made for this call.
  const std::string& request_id() const { return request_id_; }
  std::stop_token stop() const { return stop_.get_token(); }
  Caller caller() const { return {.deadline = deadline_, .stop = stop()}; }

 private:
  enum class State { kOpen, kAnswering, kAnswered };

  void Begin();
  void RunQueued();
  // Reserves room for the answer until it is sent, or returns why there is none.
  absl::Status HoldAnswer(const CallAnswer& answer);
  // Answers the call if it waits in a queue, where nothing else would.
  void LeaveQueue();

  const Method method_;
  const CallEnvironment& environment_;
  const RawCall raw_;
  const std::chrono::steady_clock::time_point arrival_ = std::chrono::steady_clock::now();
  const Instant deadline_;
  RequestOutline outline_;
  std::string owner_;
  std::string request_id_;
  std::string traceparent_;
  // Whether the answer is OK. Ordered by kAnswered.
  bool answered_ok_ = false;
  // Whether the request keeps the limits and its caller may plan for the job, so that it counts as
  // the job's.
  bool admitted_ = false;
  // Bytes of the budget for waiting messages, until the call is gone.
  uint64_t held_bytes_ = 0;
  // The ticket among unsent answers; 0: none.
  uint64_t unsent_ticket_ = 0;
  std::stop_source stop_;
  std::atomic<bool> cut_short_ = false;
  // The tickets of the pool and of the store's threads; 0: not there (yet).
  std::atomic<uint64_t> planning_ticket_ = 0;
  std::atomic<uint64_t> store_ticket_ = 0;
  // kOpen also orders Start before OnCancel, and kAnswered the answerer's work before OnDone, each
  // on a gRPC thread. gRPC orders them too, but ThreadSanitizer does not see that.
  std::atomic<State> state_ = State::kOpen;
  // gRPC's reference to the call, until OnDone.
  std::shared_ptr<UnaryCall> grpcs_share_;
};

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_SERVICE_RPC_UNARY_CALL_H_
