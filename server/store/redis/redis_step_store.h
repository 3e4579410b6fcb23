// A StepStore in a Redis, for replicas that share steps.
//
// For the operator of the Redis:
// - One Redis is enough, with replication and Sentinels if it must not fail. A Redis Cluster is not
//   supported, because a script has keys of several slots. What Redis forgets in a restart or a
//   fail-over comes back: waiting workers offer their parts again, and replicas that planned a step
//   restore it when somebody waits for it. With appendonly yes, which is recommended, hardly
//   anything is forgotten. Only with appendfsync always is a step never planned a second time, even
//   if everybody dies who knows of it.
// - Every replica remembers the order of a job's runs, and restores it (redis_job_runs.h). It goes
//   by Redis' clock, which a fail-over should set back by less than the time between two runs.
// - maxmemory-policy must be noeviction, the default. Any other may evict a step half-way. When
//   memory is full, workers get RESOURCE_EXHAUSTED until steps are forgotten; there are no shares.
// - A step needs its workers' parts in the form of the wire, some 3 bytes a sequence, one copy of
//   its terms, and about 100 bytes a worker. It is kept for its retention after its outcome. So
//   memory is about bytes a step x steps a second x retention: 130 MB for a step of 65,536
//   sequences every second, kept 10 minutes. If workers of one step wait at several replicas, its
//   plan is kept too, for 30 seconds: some 6 bytes a sequence. Set maxmemory to about twice that.
// - The keys are batchplan:v1:step:STEP, one hash a step, batchplan:v1:waiting:STEP, a small set
//   for seconds, batchplan:v1:plan:STEP, a hash for as long as a plan is kept,
//   batchplan:v1:planner:STEP, a hash for 2 seconds, and batchplan:v1:run_order:JOB, a sorted
//   set for a day, where STEP is JOB/7, or JOB/RUN/3.7 in a run whose id has 3 bytes; the channel
//   is batchplan:v1:steps. A user of Redis' ACL needs
//     ~batchplan:* &batchplan:* +evalsha +eval +hget +hmget +hset +hkeys +hgetall +hincrby +del
//     +exists +sadd +srem +zadd +zrange +zremrangebyrank +pexpire +publish +subscribe +ping +time
//     +select
// - Deployments that share a Redis need a database each.
//
// Each call is one command of Redis, which is atomic, and lasts at most connect_timeout and
// command_timeout together. Redis' clock decides when a step expires. Other replicas' notifications
// come over a connection of their own. While that is lost they are missed, and nobody can tell
// which ones.

#ifndef BATCHPLAN_SERVER_STORE_REDIS_REDIS_STEP_STORE_H_
#define BATCHPLAN_SERVER_STORE_REDIS_REDIS_STEP_STORE_H_

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "server/base/clock.h"
#include "server/store/redis/redis_client.h"
#include "server/store/redis/redis_job_runs.h"
#include "server/store/redis/redis_subscriber.h"
#include "server/store/step_store.h"

namespace batchplan {

class RedisStepStore : public StepStore {
 public:
  // Waits until notifications are heard or the first attempt has failed; attempts go on. `clock`
  // measures how long this replica remembers runs.
  RedisStepStore(std::shared_ptr<RedisClient> client, const StepStoreOptions& lifetimes,
                 const RedisSubscriberOptions& subscriber, Clock clock);

  void SetListener(Listener listener) override { listener_.Set(std::move(listener)); }
  absl::StatusOr<PartReceipt> PutPart(const StepKey& key, const StepPart& part) override;
  absl::StatusOr<StepProgress> Progress(const StepKey& key, const std::string& waits_at) override;
  absl::Status Leave(const StepKey& key, const std::string& waits_at) override;
  absl::StatusOr<StepParts> Parts(const StepKey& key) override;
  absl::StatusOr<StandingOutcome> PutOutcome(const StepKey& key, const std::string& incarnation,
                                             const StepOutcome& outcome) override;
  absl::StatusOr<std::optional<std::string>> Plan(const StepKey& key,
                                                  const std::string& incarnation) override;
  absl::Status MarkServed(const StepKey& key, const std::string& incarnation,
                          const std::vector<uint32_t>& workers) override;
  absl::StatusOr<bool> Restore(const StepKey& key, const WholeStep& step) override;

 private:
  void Hear(std::string_view message);
  RedisSubscriberOptions TellingAgain(RedisSubscriberOptions subscriber);
  std::vector<std::string> ArgumentsOfRun(const StepKey& key);

  const std::shared_ptr<RedisClient> client_;
  const std::string time_to_live_;
  const std::string retention_;
  const std::string waiting_;
  const std::string plan_lifetime_;
  const std::string planning_;
  RedisJobRuns runs_;
  ListenerSlot listener_;
  // The last member, since its thread uses the others.
  RedisSubscriber subscriber_;
};

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_STORE_REDIS_REDIS_STEP_STORE_H_
