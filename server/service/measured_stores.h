// Stores whose calls are counted and timed.

#ifndef BATCHPLAN_SERVER_SERVICE_MEASURED_STORES_H_
#define BATCHPLAN_SERVER_SERVICE_MEASURED_STORES_H_

#include "server/service/open_stores.h"
#include "server/telemetry/metrics.h"

namespace batchplan {

// `stores`, with each call recorded in `metrics`, which outlives them.
Stores Measured(Stores stores, Metrics* metrics);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_SERVICE_MEASURED_STORES_H_
