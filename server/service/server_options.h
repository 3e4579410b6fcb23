// What an operator decides about a server. The flags of batchplan-server are these, by name.

#ifndef BATCHPLAN_SERVER_SERVICE_SERVER_OPTIONS_H_
#define BATCHPLAN_SERVER_SERVICE_SERVER_OPTIONS_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace batchplan {

struct ServerOptions {
  // Where gRPC is served, HOST:PORT, or unix:PATH. Port 0 takes a free one. Plain text and without
  // authentication: an address that only trusted machines reach.
  std::string listen = "127.0.0.1:50051";
  // Where GET /metrics is served, HOST:PORT. Empty: nowhere.
  std::string metrics_listen = "127.0.0.1:9464";
  // The largest request and the largest response, in bytes. A million sequences take some 15 MB of
  // response at most; gRPC's own default of 4 MiB is too little.
  int64_t max_message_bytes = 64 << 20;
  // The most sequences that one request may have.
  int64_t max_sequences = 8 << 20;
  // Plans made at the same time, each by one thread. 0: one a processor.
  int64_t planning_threads = 0;
  // Requests that may wait while all planning threads are busy; beyond, RESOURCE_EXHAUSTED. The
  // threads and the queue are shared between jobs: fair_queue.h.
  int64_t max_queued_plans = 64;
  // Sequences of all requests that wait or are planned, each request counted as 256 more, and one
  // of many bytes as a sequence for every 16; beyond, RESOURCE_EXHAUSTED. A request that finds no
  // other is planned at any size.
  int64_t max_queued_sequences = 16 << 20;
  // Memory for plans that were made, to answer the same request again with. 0: none.
  int64_t plan_cache_bytes = 64 << 20;
  // Serve grpc.reflection, for grpcurl and the like.
  bool reflection = true;
  // Run the plan checker on every plan, and answer INTERNAL rather than with a plan that breaks a
  // promise. Costs about as much as planning.
  bool verify_plans = false;
  // How long the server keeps taking calls after it has told the health checks that it stops, so
  // that load balancers can turn away first.
  absl::Duration drain_delay = absl::Seconds(2);
  // How long calls may go on after that before they are cancelled.
  absl::Duration shutdown_grace = absl::Seconds(10);

  // InvalidArgument, naming flag, value and limit.
  absl::Status Validate() const;
};

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_SERVICE_SERVER_OPTIONS_H_
