// One call in flight, whatever its method: what all methods do alike, once.
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
// A call is outlined and checked against the limits by gRPC's thread, waits for its job's turn, is
// run by a planning thread (or one of the store's), and answered exactly once: the first Answer
// counts, from any thread and at any time, and later ones do nothing. Run may return without an
// answer and give it later, holding no thread meanwhile; who answers later keeps the call alive by
// self(). A cancelled call, and one whose deadline passes, has a stop requested of stop(), from one
// of gRPC's threads: a std::stop_callback on it is how a call that waits for something lets go of
// it. One that still waits for its turn to plan, or for a thread of the store's, leaves the queue
// and is answered there and then. What Run throws is an answer too.
//
// An answer is counted, sent, if there is room for what its caller has not read yet, and logged in
// one line with everything that the call goes by. Answer, self, stop and the like are thread-safe.

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

// What all calls of a server work with. Outlives them.
struct CallEnvironment {
  PlanningPool* pool = nullptr;
  StoreThreads* store_threads = nullptr;
  // For reports, which wait for each other and for which no training step waits: they shall not
  // hold up the calls for which one does.
  StoreThreads* report_threads = nullptr;
  // Of calls that wait for the store or for other workers.
  ByteBudget* waiting_bytes = nullptr;
  // Null: there is no limit.
  UnsentAnswers* unsent = nullptr;
  Metrics* metrics = nullptr;
  // Where calls are told that the server shuts down; nullptr: they never are.
  CallsInFlight* calls = nullptr;
  // Whose callers are held to the jobs of their tokens; nullptr: all may plan for all jobs.
  const Tokens* tokens = nullptr;
  RequestLimits limits;
};

// A method's name in logs, how to outline its requests, and where its calls wait for the store.
struct Method {
  const char* name;
  RequestOutline (*outline)(const grpc::ByteBuffer& request);
  StoreThreads* CallEnvironment::*store_threads = &CallEnvironment::store_threads;
};

// What gRPC hands to a method's handler, and keeps until the call is done. The request is gRPC's
// own and not const there.
struct RawCall {
  grpc::CallbackServerContext* context = nullptr;
  const grpc::ByteBuffer* request = nullptr;
  grpc::ByteBuffer* response = nullptr;
};

struct CallAnswer {
  // Serialized.
  grpc::ByteBuffer response;
  // For the log: of the plan, where there is one.
  std::optional<uint64_t> microbatches = std::nullopt;
  // And whether it came from the cache, where there is one.
  std::optional<bool> recalled = std::nullopt;
  // What holds the response's bytes, where other answers share them.
  std::shared_ptr<const void> shared = nullptr;
};

class UnaryCall : public grpc::ServerUnaryReactor, public std::enable_shared_from_this<UnaryCall> {
 public:
  UnaryCall(const Method& method, const CallEnvironment& environment, const RawCall& raw);
  ~UnaryCall() override;

  // Begins `call`, from its method's handler, which returns the result to gRPC.
  static grpc::ServerUnaryReactor* Start(std::shared_ptr<UnaryCall> call);

  void OnCancel() final;
  void OnDone() final;

  // Stops the call as OnCancel does, but on behalf of the server, which shuts down: it is answered
  // with UNAVAILABLE, unless it has an answer that is none of a stop's.
  void CutShort();
  // gRPC's name of the connection's other end; until OnDone.
  std::string peer() const { return raw_.context->peer(); }

 protected:
  // Has Run called, in its turn, or says why it won't be. First when the call begins, where a
  // method may go another way than to plan; Run may queue the call again instead of answering.
  virtual absl::Status Queue() { return QueueToPlan(); }
  // On a planning thread, in the job's turn.
  absl::Status QueueToPlan();
  // On one of the method's threads that may wait for the store; after those of the same turn, if it
  // is not empty.
  absl::Status QueueForStore(const std::string& turn = "");

  // What the call was queued for. Not called once it was answered or cancelled.
  virtual void Run() = 0;

  // Its answer has been sent, without an error on the way. On one of gRPC's threads.
  virtual void Delivered() {}

  // Memory that runs out even here ends the process: the caller must not wait for ever.
  void Answer(absl::StatusOr<CallAnswer> answer) noexcept;

  std::shared_ptr<UnaryCall> self() { return shared_from_this(); }
  // gRPC's, until the call is answered.
  const grpc::ByteBuffer& request_bytes() const { return *raw_.request; }
  // Lets go of the request's bytes, once nothing reads them any more.
  void DropRequestBytes();
  const RequestOutline& outline() const { return outline_; }
  // InvalidArgument unless the request, once it is parsed, is of the job that it was admitted for,
  // and asks for no more.
  absl::Status CheckOutlined(const std::string& job_id) const;
  absl::Status CheckOutlined(const v1::PlanBatchRequest& request) const;
  // Whose call it is: authentication.h.
  const std::string& owner() const { return owner_; }
  // The request's own, or one made for this call.
  const std::string& request_id() const { return request_id_; }
  std::stop_token stop() const { return stop_.get_token(); }
  Caller caller() const { return {.deadline = deadline_, .stop = stop()}; }

 private:
  enum class State { kOpen, kAnswering, kAnswered };

  void Begin();
  void RunQueued();
  // Makes room for the answer until it is sent, or says why there is none.
  absl::Status HoldAnswer(const CallAnswer& answer);
  // Answers the call if it waits in a queue, and nothing else will.
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
  // The answer is OK. Ordered by kAnswered.
  bool answered_ok_ = false;
  // The request keeps the limits, and its caller may plan for the job: it is the job's call.
  bool admitted_ = false;
  // Of the budget for messages that wait, until the call is gone.
  uint64_t held_bytes_ = 0;
  // With the answers that are not sent yet; 0: it has none.
  uint64_t unsent_ticket_ = 0;
  std::stop_source stop_;
  std::atomic<bool> cut_short_ = false;
  // In the pool and with the store's threads; 0: not there (yet).
  std::atomic<uint64_t> planning_ticket_ = 0;
  std::atomic<uint64_t> store_ticket_ = 0;
  // kOpen also orders what Start did before OnCancel, and kAnswered the work of whoever answered
  // before OnDone, each on a gRPC thread. gRPC orders them too, but where ThreadSanitizer does not
  // see it.
  std::atomic<State> state_ = State::kOpen;
  // Until OnDone: gRPC's share of the call.
  std::shared_ptr<UnaryCall> grpcs_share_;
};

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_SERVICE_RPC_UNARY_CALL_H_
