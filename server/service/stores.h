// The stores that replicas share, by the operator's choice: in this process's memory, or in Redis.

#ifndef BATCHPLAN_SERVER_SERVICE_STORES_H_
#define BATCHPLAN_SERVER_SERVICE_STORES_H_

#include <memory>

#include "absl/status/statusor.h"
#include "server/service/server_options.h"
#include "server/store/fit_store.h"
#include "server/store/memory_step_store.h"
#include "server/store/step_store.h"
#include "server/telemetry/metrics.h"

namespace batchplan {

struct Stores {
  std::unique_ptr<StepStore> steps;
  std::unique_ptr<FitStore> fits;
  // If `steps` is, or wraps, the store in memory, that store; else null.
  MemoryStepStore* memory = nullptr;
};

// The stores of valid options. InvalidArgument, naming the flag, if a needed password is missing, a
// file for TLS can't be used, or the Redis is a Redis Cluster; a Redis that can't be reached is no
// error.
absl::StatusOr<Stores> OpenStores(const ServerOptions& options);

// `stores`, with each call counted and timed in `metrics`, which outlives them.
Stores Measured(Stores stores, Metrics* metrics);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_SERVICE_STORES_H_
