// What an operator decides about a server. The flags of batchplan-server are these, by name.

#ifndef BATCHPLAN_SERVER_SERVICE_SERVER_OPTIONS_H_
#define BATCHPLAN_SERVER_SERVICE_SERVER_OPTIONS_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace batchplan {

struct ServerOptions {
  // Where gRPC is served, HOST:PORT, or unix:PATH. Port 0 takes a free one. Without tls_certificate
  // plain text and without authentication: an address that only trusted machines reach.
  std::string listen = "127.0.0.1:50051";
  // Where GET /metrics, /healthz, /readyz and /plans are served, HOST:PORT. Empty: nowhere.
  std::string metrics_listen = "127.0.0.1:9464";
  // The largest request and the largest response, in bytes. A million sequences take some 15 MB of
  // response at most; gRPC's own default of 4 MiB is too little.
  int64_t max_message_bytes = 64 << 20;
  // The most sequences that one request may have, each counted once a pass.
  int64_t max_sequences = 1'500'000;
  // Plans made at the same time, each by one thread. 0: one a processor. At least two, whatever is
  // set, of which one job never has the last.
  int64_t planning_threads = 0;
  // Requests that may wait while all planning threads are busy; beyond, RESOURCE_EXHAUSTED. The
  // threads and the queue are shared between owners and between jobs: fair_queue.h.
  int64_t max_queued_plans = 64;
  // Sequences of all requests that wait or are planned, once a pass, with the empty micro-batches
  // that they ask for, each request counted as 256 more, and one of many bytes as a sequence for
  // every 16; beyond, RESOURCE_EXHAUSTED. A request that finds no
  // other is planned at any size.
  int64_t max_queued_sequences = 16 << 20;
  // A plan that takes longer is given up with RESOURCE_EXHAUSTED.
  absl::Duration max_planning_seconds = absl::Seconds(30);
  // Memory for plans that were made, to answer the same request again with. 0: none.
  int64_t plan_cache_bytes = 64 << 20;
  // Serve grpc.reflection, for grpcurl and the like.
  bool reflection = true;
  // Run the plan checker on every plan, and answer INTERNAL rather than with a plan that breaks a
  // promise. Costs about as much as planning.
  bool verify_plans = false;
  // What replicas share, of collective plans under way and of fitted costs: "memory", for one
  // server alone, or the URL of a Redis (store/redis/redis_address.h), without a password.
  std::string rendezvous_store = "memory";
  // A file whose first line is the password of that Redis. Empty: none is needed.
  std::string rendezvous_password;
  // The parts that "memory" holds at most; beyond, RESOURCE_EXHAUSTED.
  int64_t rendezvous_memory_bytes = int64_t{1} << 30;
  // How long a step is kept after its last part came, and after it was planned, for those who ask
  // again.
  absl::Duration step_time_to_live = absl::Minutes(10);
  absl::Duration step_retention = absl::Minutes(10);
  // JoinBatch calls that may wait for other workers at the same time.
  int64_t max_waiting_joins = 65536;
  // What the messages of calls that wait for other workers or for the store may take together.
  int64_t max_waiting_bytes = int64_t{1} << 30;
  // What answers that were not read yet may take together; beyond, those of the caller that holds
  // most are cancelled or refused.
  int64_t max_unsent_bytes = int64_t{512} << 20;

  // Jobs with time series of their own, until they are idle for an hour; those beyond are counted
  // together.
  int64_t max_job_labels = 100;
  // Plans of each job that GET /plans shows. 0: it is not served, and nothing is kept for it.
  int64_t recent_plans = 32;

  // PEM files. With a certificate and its key, gRPC is served over TLS (1.2 or later) only. With
  // the authorities of clients besides, only clients that show a certificate of theirs are served.
  std::string tls_certificate;
  std::string tls_key;
  std::string tls_client_ca;
  // How often the files are looked at; what changed holds for connections made from then on.
  absl::Duration tls_reload_interval = absl::Seconds(60);
  // A file of bearer tokens and the jobs they may plan for (tokens.h). Empty: calls need none.
  std::string auth_tokens;

  // A connection on which nothing comes in is pinged so often, and closed if the answer takes
  // longer than the timeout.
  absl::Duration keepalive_interval = absl::Seconds(60);
  absl::Duration keepalive_timeout = absl::Seconds(20);
  // A client that pings more often than this is told to go away. Clients of ours ping every 5 s
  // while they wait for an answer.
  absl::Duration min_client_ping_interval = absl::Seconds(4);
  // A connection without calls, and any connection, are closed after so long, 0: never; the second
  // lets calls in flight go on for the grace. Age is what moves clients to replicas that came
  // later.
  absl::Duration max_connection_idle = absl::Minutes(15);
  absl::Duration max_connection_age = absl::Hours(1);
  absl::Duration max_connection_age_grace = absl::Minutes(10);
  // What a new connection gets to show that it speaks TLS and HTTP/2.
  absl::Duration handshake_timeout = absl::Seconds(20);
  // How long connections may wait, while none is taken, until the server ends itself, as gRPC 1.51
  // takes none any more after it ran out of descriptors; counted in looks, one a second. 0: it goes
  // on without being ready.
  absl::Duration accept_patience = absl::Seconds(30);
  // Calls at the same time on one connection; further ones wait in the client.
  int64_t max_concurrent_streams = 1000;
  // The headers of one call.
  int64_t max_metadata_bytes = 16 << 10;

  // How long the server keeps taking calls after it has told the health checks that it stops, so
  // that load balancers can turn away first.
  absl::Duration drain_delay = absl::Seconds(2);
  // How long calls may go on after that before they are stopped.
  absl::Duration shutdown_grace = absl::Seconds(10);

  // InvalidArgument, naming flag, value and limit.
  absl::Status Validate() const;
};

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_SERVICE_SERVER_OPTIONS_H_
