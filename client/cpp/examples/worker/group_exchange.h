// What stands in for a process group's collectives here: ranks that are threads give each other
// what they have.

#ifndef BATCHPLAN_CLIENT_CPP_EXAMPLES_WORKER_GROUP_EXCHANGE_H_
#define BATCHPLAN_CLIENT_CPP_EXAMPLES_WORKER_GROUP_EXCHANGE_H_

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "batchplan/worker_plan.h"
#include "client/cpp/examples/worker/model.h"
#include "server/base/mutex.h"

namespace batchplan::examples {

// Of all ranks of a step. Thread-safe.
class GroupExchange {
 public:
  // What the ranks of the micro-batch have, one rank's after the other's, once all of them have
  // called with the same micro-batch and `round`: an all-gather. Aborted after Abort.
  absl::StatusOr<std::vector<Hidden>> AllGather(const WorkerMicrobatch& microbatch, int round,
                                                std::vector<Hidden> own);

  // Lets nobody wait any more, because a rank has failed.
  void Abort();

 private:
  struct Board {
    std::vector<std::vector<Hidden>> parts;
    size_t given = 0;
    size_t taken = 0;
  };

  Mutex mutex_;
  std::condition_variable_any changed_;
  bool aborted_ ABSL_GUARDED_BY(mutex_) = false;
  // By micro-batch, which is one group's alone, and round.
  std::map<std::pair<uint32_t, int>, Board> boards_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace batchplan::examples

#endif  // BATCHPLAN_CLIENT_CPP_EXAMPLES_WORKER_GROUP_EXCHANGE_H_
