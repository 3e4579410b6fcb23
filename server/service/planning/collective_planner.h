// Collective plans of one server: a Rendezvous with the store's threads behind it, the planning
// pool for its plans, and a thread for its clock.
//
//   CollectivePlanner planner(options, {.steps = &store}, &fits, &store_threads, &pool, config);
//   Rendezvous::Ticket ticket = planner.Join(std::move(request), caller_deadline, done);
//   planner.Shutdown();
//
// A step's plan waits for its turn like any other of its job. It leaves the queue once nobody waits
// for it; if the queue is full, it is offered again as long as somebody waits. Thread-safe.

#ifndef BATCHPLAN_SERVER_SERVICE_PLANNING_COLLECTIVE_PLANNER_H_
#define BATCHPLAN_SERVER_SERVICE_PLANNING_COLLECTIVE_PLANNER_H_

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "batchplan/v1/batch_planner.pb.h"
#include "server/base/mutex.h"
#include "server/base/periodic.h"
#include "server/rendezvous/rendezvous.h"
#include "server/service/admission/planning_pool.h"
#include "server/service/admission/store_threads.h"
#include "server/service/planning/job_fits.h"
#include "server/service/planning/plan_batch.h"
#include "server/store/memory_step_store.h"
#include "server/store/step_store.h"

namespace batchplan {

struct CollectivePlannerOptions {
  // This server's name, unique among replicas.
  std::string replica;
  size_t max_waiting_joins = 65536;
  uint64_t max_sequences = 1'500'000;
  // The longest wait of a join, also for callers that set no limit.
  absl::Duration longest_wait = absl::Minutes(10);
  // How long a planned step is kept, here and in the store.
  absl::Duration step_retention = absl::Minutes(10);
};

// Where the parts of steps are kept.
struct CollectiveStore {
  StepStore* steps = nullptr;
  // If `steps` is, or wraps, the store in memory, that store; else null.
  MemoryStepStore* memory = nullptr;
};

class CollectivePlanner {
 public:
  // All pointers must outlive this; `store_threads` and `pool` must be stopped after Shutdown and
  // before this is destroyed.
  CollectivePlanner(const CollectivePlannerOptions& options, const CollectiveStore& store,
                    JobFits* fits, StoreThreads* store_threads, PlanningPool* pool,
                    const PlanBatchConfig& config);

  // Shuts down.
  ~CollectivePlanner();

  CollectivePlanner(const CollectivePlanner&) = delete;
  CollectivePlanner& operator=(const CollectivePlanner&) = delete;

  // Rendezvous::Join for `owner` (authentication.h), answered at the earliest of request.timeout,
  // longest_wait, and `deadline` less a margin in which the answer still reaches the caller.
  Rendezvous::Ticket Join(v1::JoinBatchRequest request, std::string owner, Instant deadline,
                          Rendezvous::Done done);

  void Cancel(Rendezvous::Ticket ticket) { rendezvous_.Cancel(ticket); }

  // The limit of an answer, be it a whole plan or a slice.
  size_t max_message_bytes() const { return config_.max_message_bytes; }

  // See Rendezvous::Served.
  void Served(const ServedWorker& served) { rendezvous_.Served(served); }

  // Answers all joins, and those that still come, with Unavailable. A second call does nothing.
  void Shutdown();

 private:
  // The joins of one job that wait here; the owner of the first is the owner of the job's plans.
  struct Joiners {
    std::string owner;
    size_t joins = 0;
  };

  void Tick();
  RendezvousHooks Hooks();
  std::string OwnerOfPlan(const std::string& job_id);
  void EndJoin(const std::string& job_id);
  void Plan(const std::shared_ptr<const v1::PlanBatchRequest>& request, const std::stop_token& stop,
            const RendezvousHooks::Planned& planned);

  const CollectivePlannerOptions options_;
  MemoryStepStore* const memory_;
  JobFits* const fits_;
  StoreThreads* const store_threads_;
  PlanningPool* const pool_;
  const PlanBatchConfig& config_;
  Mutex joiners_mutex_;
  // By job.
  std::map<std::string, Joiners> joiners_ ABSL_GUARDED_BY(joiners_mutex_);
  Rendezvous rendezvous_;
  // Last, so that it ends before the rendezvous that it ticks.
  std::optional<Periodic> ticker_;
};

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_SERVICE_PLANNING_COLLECTIVE_PLANNER_H_
