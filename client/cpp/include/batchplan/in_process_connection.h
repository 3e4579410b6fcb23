// Planning without a server: the planner's own code, in the calling thread.
//
// A request gives the same plan as on a server of the same version. One for fitted costs
// (cost_model.fitted), which only a server has, is FAILED_PRECONDITION. Calls share nothing and run
// in parallel; each uses one core and some hundred bytes a sequence, a second or so for a million
// sequences. A call with a timeout starts a thread that waits for it and then stops the planning; a
// plan that is ready by then is returned.

#ifndef BATCHPLAN_CLIENT_CPP_IN_PROCESS_CONNECTION_H_
#define BATCHPLAN_CLIENT_CPP_IN_PROCESS_CONNECTION_H_

#include <memory>

#include "absl/time/time.h"
#include "batchplan/connection.h"

namespace batchplan {

struct InProcessOptions {
  // Prove every plan with the plan checker before returning it; a broken promise is INTERNAL.
  bool verify_plans = false;
  // For calls that set no timeout.
  absl::Duration default_timeout = absl::InfiniteDuration();
};

std::shared_ptr<Connection> MakeInProcessConnection(const InProcessOptions& options = {});

}  // namespace batchplan

#endif  // BATCHPLAN_CLIENT_CPP_IN_PROCESS_CONNECTION_H_
