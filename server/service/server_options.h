// The options of a server: the flags of batchplan-server, by name.

#ifndef BATCHPLAN_SERVER_SERVICE_SERVER_OPTIONS_H_
#define BATCHPLAN_SERVER_SERVICE_SERVER_OPTIONS_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace batchplan {

struct ServerOptions {
  // Where gRPC is served, HOST:PORT, or unix:PATH. Port 0 chooses a free one. Without
  // tls_certificate in plain text and without authentication: use an address that only trusted
  // machines reach.
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
  // Sequences, once a pass, of all requests that wait or are planned, with the empty micro-batches
  // that they ask for. Each request counts as 256 more, and one of many bytes as a sequence for
  // every 16. Beyond, RESOURCE_EXHAUSTED. A request that finds no other is planned at any size.
  int64_t max_queued_sequences = 16 << 20;
  // A plan that takes longer is given up with RESOURCE_EXHAUSTED.
  absl::Duration max_planning_seconds = absl::Seconds(30);
  // Memory for made plans, to answer the same request again. 0: none.
  int64_t plan_cache_bytes = 64 << 20;
  // Serve grpc.reflection, for grpcurl and the like.
  bool reflection = true;
  // Run the plan checker on every plan, and answer INTERNAL if it breaks a promise. Costs about as
  // much as planning.
  bool verify_plans = false;
  // Where collective plans under way and fitted costs are kept, which replicas share: "memory", for
  // a single server, or the URL of a Redis (store/redis/redis_address.h), without a password.
  std::string rendezvous_store = "memory";
  // A file whose first line is the password of that Redis. Empty: none is needed.
  std::string rendezvous_password;
  // PEM files for a rediss:// URL: the authorities that its certificate must come from, empty for
  // those of the system; and a certificate and its key for a Redis that asks its clients for one.
  // They are read again for each connection.
  std::string rendezvous_tls_ca;
  std::string rendezvous_tls_certificate;
  std::string rendezvous_tls_key;
  // The most bytes of parts in "memory"; beyond, RESOURCE_EXHAUSTED.
  int64_t rendezvous_memory_bytes = int64_t{1} << 30;
  // How long a step is kept after its last part came, and after it was planned, for workers that
  // ask again.
  absl::Duration step_time_to_live = absl::Minutes(10);
  absl::Duration step_retention = absl::Minutes(10);
  // JoinBatch calls that may wait for other workers at the same time.
  int64_t max_waiting_joins = 65536;
  // The most bytes of messages of calls that wait for other workers or for the store.
  int64_t max_waiting_bytes = int64_t{1} << 30;
  // The most bytes of answers that were not read yet; beyond, those of the caller that holds most
  // are cancelled or refused.
  int64_t max_unsent_bytes = int64_t{512} << 20;

  // Jobs with time series of their own, until they are idle for an hour; further jobs are counted
  // together.
  int64_t max_job_labels = 100;
  // Plans of each job that GET /plans shows. 0: it is not served, and nothing is kept for it.
  int64_t recent_plans = 32;

  // PEM files. With a certificate and its key, gRPC is served over TLS (1.2 or later) only. With
  // client authorities besides, only clients with a certificate of one of these are served.
  std::string tls_certificate;
  std::string tls_key;
  std::string tls_client_ca;
  // How often the files are checked; changes hold for new connections.
  absl::Duration tls_reload_interval = absl::Seconds(60);
  // A file of bearer tokens and the jobs they may plan for (tokens.h). Empty: calls need none.
  std::string auth_tokens;

  // How often a silent connection is pinged; it is closed if the answer takes longer than the
  // timeout.
  absl::Duration keepalive_interval = absl::Seconds(60);
  absl::Duration keepalive_timeout = absl::Seconds(20);
  // A client that pings more often than this is told to go away. Clients of ours ping every 5 s
  // while they wait for an answer.
  absl::Duration min_client_ping_interval = absl::Seconds(4);
  // When a connection without calls, and any connection, is closed; 0: never. At its age limit,
  // calls in flight go on for the grace. The age limit moves clients to replicas that came later.
  absl::Duration max_connection_idle = absl::Minutes(15);
  absl::Duration max_connection_age = absl::Hours(1);
  absl::Duration max_connection_age_grace = absl::Minutes(10);
  // How long a new connection has for the handshakes of TLS and HTTP/2.
  absl::Duration handshake_timeout = absl::Seconds(20);
  // How long connections may wait while none is accepted, until the server ends itself: gRPC 1.51
  // accepts none any more after it ran out of descriptors. Counted in looks, one a second. 0: it
  // goes on without being ready.
  absl::Duration accept_patience = absl::Seconds(30);
  // Calls at the same time on one connection; further ones wait in the client.
  int64_t max_concurrent_streams = 1000;
  // The most bytes of the headers of one call.
  int64_t max_metadata_bytes = 16 << 10;

  // How long the server still accepts calls after health checks say that it stops, so that load
  // balancers turn away first.
  absl::Duration drain_delay = absl::Seconds(2);
  // How long calls may go on after that before they are stopped.
  absl::Duration shutdown_grace = absl::Seconds(10);

  // InvalidArgument, naming flag, value and limit.
  absl::Status Validate() const;
};

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_SERVICE_SERVER_OPTIONS_H_
