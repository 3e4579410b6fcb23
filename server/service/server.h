// A planning server: its listeners, threads and health, from start to drain.
//
//   absl::StatusOr<std::unique_ptr<Server>> server = Server::Start(options);
//   ...
//   (*server)->Drain();
//
// Serves from Start on, on threads of its own: batchplan.v1.BatchPlanner, grpc.health.v1 for it and
// for "", reflection, and the HTTP endpoint of metrics, probes and recent plans. Several servers
// may live in one process.

#ifndef BATCHPLAN_SERVER_SERVICE_SERVER_H_
#define BATCHPLAN_SERVER_SERVICE_SERVER_H_

#include <grpcpp/grpcpp.h>

#include <atomic>
#include <functional>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "server/base/mutex.h"
#include "server/base/periodic.h"
#include "server/recent/recent_plans.h"
#include "server/service/accept_watch.h"
#include "server/service/admission/byte_budget.h"
#include "server/service/admission/planning_limit.h"
#include "server/service/admission/planning_pool.h"
#include "server/service/admission/store_threads.h"
#include "server/service/admission/unsent_answers.h"
#include "server/service/planning/collective_planner.h"
#include "server/service/planning/job_fits.h"
#include "server/service/planning/plan_batch.h"
#include "server/service/planning/plan_cache.h"
#include "server/service/rpc/calls_in_flight.h"
#include "server/service/rpc/planner_service.h"
#include "server/service/security/tls.h"
#include "server/service/security/tokens.h"
#include "server/service/server_options.h"
#include "server/service/stores.h"
#include "server/telemetry/http_endpoint.h"
#include "server/telemetry/metrics.h"

namespace batchplan {

class Server {
 public:
  // Listens and serves. InvalidArgument if the options are not valid; FailedPrecondition, naming
  // the flag, if an address can't be listened on or a file can't be used; ResourceExhausted if
  // threads can't be started.
  static absl::StatusOr<std::unique_ptr<Server>> Start(const ServerOptions& options);

  // Start with `plan` in place of MakePlan, for tests.
  static absl::StatusOr<std::unique_ptr<Server>> Start(const ServerOptions& options,
                                                       PlanFunction plan);

  // Shuts down without the drain's delay.
  ~Server();

  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // The listening ports; metrics_port, the HTTP endpoint's, is 0 without one.
  int port() const { return port_; }
  int metrics_port() const { return endpoint_ ? endpoint_->port() : 0; }

  // Sets the function that is called once, on another thread, when connections have waited for
  // options.accept_patience and none was accepted: the server is then useless and better restarted.
  // It may be called at once, and must not end the server itself. Null: nobody is told.
  void OnDeaf(std::function<void()> deaf);

  // What GET /metrics serves, for tests.
  const Metrics& metrics() const { return metrics_; }

  // Checks the files of tokens and certificates at once, rather than at the next interval: uses new
  // tokens, and logs what is new or wrong.
  void ReloadFiles();

  // The orderly end, after which the server can't be used again: AnnounceDrain,
  // options.drain_delay, Shutdown.
  void Drain();

  // Health becomes NOT_SERVING and /readyz 503, for good. Calls are still accepted.
  void AnnounceDrain();

  // Tells workers that wait for others to go elsewhere, refuses new connections and calls, ends
  // every connection as soon as it has no call in flight, stops the calls that still go on after
  // options.shutdown_grace, and joins the threads. Returns once every call is answered. A refused
  // or stopped call ends with UNAVAILABLE, even if the server's answer no longer reaches it, never
  // with CANCELLED. A second call only waits for the first.
  void Shutdown();

 private:
  Server(const ServerOptions& options, PlanFunction plan, std::unique_ptr<Tokens> tokens,
         Stores stores);

  absl::Status Listen();
  // Waits until gRPC's calls are answered or stopped, and ends connections.
  void EndCallsAndConnections();
  // Returns memory that large plans and answers have freed, while there is nothing to plan.
  void ReturnMemory();
  // Checks whether connections are accepted; the server is not ready while they aren't.
  void WatchAccepting();
  // FailedPrecondition as CheckTlsFiles; logs a certificate that is new.
  absl::Status NoteCertificate() ABSL_EXCLUSIVE_LOCKS_REQUIRED(reload_mutex_);

  const ServerOptions options_;
  Metrics metrics_;
  // Null: calls need no token.
  const std::unique_ptr<Tokens> tokens_;
  // Null: none are kept.
  const std::unique_ptr<RecentPlans> recent_;
  PlanCache cache_;
  Stores stores_;
  JobFits fits_;
  PlanningPool pool_;
  StoreThreads store_threads_;
  StoreThreads report_threads_;
  ByteBudget waiting_bytes_;
  CallsInFlight calls_;
  UnsentAnswers unsent_;
  PlanningLimit planning_limit_;
  const PlanBatchConfig config_;
  CollectivePlanner collective_;
  PlannerService service_;
  // GET /readyz needs both: started_, from the start of the last part to the drain; and accepting_,
  // that connections are accepted.
  std::atomic<bool> started_ = false;
  std::atomic<bool> accepting_ = true;
  std::unique_ptr<HttpEndpoint> endpoint_;
  std::unique_ptr<grpc::Server> grpc_server_;
  int port_ = 0;
  Mutex shutdown_mutex_;
  bool shut_down_ ABSL_GUARDED_BY(shutdown_mutex_) = false;
  Mutex reload_mutex_;
  // Last seen and logged.
  ServerCertificate certificate_ ABSL_GUARDED_BY(reload_mutex_);
  std::string certificate_error_ ABSL_GUARDED_BY(reload_mutex_);
  std::string tokens_error_ ABSL_GUARDED_BY(reload_mutex_);
  // Memory that was returned to the system, which malloc goes on counting as kept.
  size_t returned_memory_ = 0;
  std::unique_ptr<AcceptWatch> accept_watch_;
  Mutex deaf_mutex_;
  bool deaf_ ABSL_GUARDED_BY(deaf_mutex_) = false;
  std::function<void()> on_deaf_ ABSL_GUARDED_BY(deaf_mutex_);
  // Last, as they use all of the above.
  std::unique_ptr<Periodic> watch_accepting_;
  std::unique_ptr<Periodic> return_memory_;
  std::unique_ptr<Periodic> reload_;
};

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_SERVICE_SERVER_H_
